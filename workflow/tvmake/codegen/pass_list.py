"""List the passes of a build for a target, in order."""

import tvm

from tvmake.codegen.lowering import machine_passes
from tvmake.targets.backend import LoweringContext
from tvmake.targets.backends import backend_of
from tvmake.targets.passes import pass_name


def list_passes(target: "tvm.target.Target") -> dict[str, list[str]]:
    """The names of a target's passes by what they transform, as ``build.dump`` and ``disabled_passes`` use them."""
    backend, context = backend_of(target), LoweringContext(target, layout_free=True)
    with target:
        phases = {
            "graph": backend.graph_passes(context),
            "kernels": backend.legalize_passes(context),
            "schedules": backend.codegen_passes(context, tvm.IRModule()),
            "virtual machine": [*machine_passes({}), *backend.final_passes()],
        }
    names = {phase: [pass_name(module_pass) for module_pass in passes] for phase, passes in phases.items()}
    return {**names, "each kernel": backend.kernel_pipeline().pass_names()}
