"""From a transformed module to code, leaving out the schedules that the code generator has no code for."""

from functools import partial
from typing import Any

import tvm

from tvmake.codegen.link import generate
from tvmake.codegen.lowering import Lowered, lower
from tvmake.codegen.scheduling.apply import apply_best
from tvmake.codegen.scheduling.unbuildable import unbuildable_kernels
from tvmake.config.requests.building import BuildRequest
from tvmake.errors import InputError
from tvmake.records.best import BestSet


def lower_and_generate(
    module: "tvm.IRModule",
    target: "tvm.target.Target",
    request: BuildRequest,
    inputs: int,
    best: BestSet | None = None,
) -> tuple[Lowered, Any]:
    """A module's code (a ``relax.VMExecutable``), and what it was made of.

    A record or a rule that has no code costs its kernel the schedule, not the build.

    Args:
        inputs: how many of ``main``'s arguments are the model's inputs.
        best: the records to schedule kernels with.

    Raises:
        InputError: a user pass fails, or there is no code for the module even so.
    """
    where = f"targets.{request.target_name}"
    options = request.build
    refused: dict[str, str] = {}
    plain: set[str] = set()
    while True:
        lowered = lower(
            module,
            target,
            request.passes,
            options.opt_level,
            inputs,
            partial(apply_best, target=target, best=best, refused=refused) if best else None,
            options.cuda_graph,
            options.schedule_rules,
            plain,
        )
        try:
            return lowered, generate(lowered.final, target, options.exec_mode, options.opt_level, where)
        except InputError:
            found = unbuildable_kernels(lowered, target)
            if not found:
                raise
            plain |= found.keys() & lowered.ruled
            refused |= {name: reason for name, reason in found.items() if name in lowered.tuned}
