"""The passes that a build for a target runs, in order."""

import tvm

from tvmake.codegen.lowering import machine_passes
from tvmake.config.target import TargetConfig, written_target
from tvmake.errors import InputError
from tvmake.targets.backend import LoweringContext
from tvmake.targets.backends import backend_of
from tvmake.targets.passes import pass_name
from tvmake.targets.resolve import tvm_target


def list_passes(name: str) -> dict[str, list[str]]:
    """The names of a target's passes, by what they work on; they are those that ``build.dump`` and ``disabled_passes`` know.

    Args:
        name: of a processor, a tag or a kind.

    Raises:
        InputError: there is no such target.
    """
    try:
        target = tvm_target(TargetConfig(**written_target(name)), name)
    except ValueError as error:
        raise InputError(name, str(error)) from None
    backend, context = backend_of(target), LoweringContext(target, layout_free=True)
    with target:
        phases = {
            "graph": backend.graph_passes(context),
            "kernels": backend.legalize_passes(context),
            "schedules": backend.codegen_passes(context, tvm.IRModule()),
            "virtual machine": [*machine_passes({}), *backend.final_passes()],
        }
    names = {phase: [pass_name(each) for each in passes] for phase, passes in phases.items()}
    return {**names, "each kernel": backend.kernel_pipeline().pass_names()}
