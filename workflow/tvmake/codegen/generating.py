"""From a transformed module to code, leaving out the schedules that the code generator has no code for."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import tvm

from tvmake.codegen.link import cause, generate
from tvmake.codegen.lowering import Lowered, lower, refuse_python_functions
from tvmake.codegen.options import PackageOptions, PassOptions
from tvmake.codegen.passes import PassRecord, PassTimes
from tvmake.codegen.scheduling.apply import apply_best
from tvmake.codegen.scheduling.unbuildable import unbuildable_kernels
from tvmake.errors import InputError, TvmakeError
from tvmake.records.best import BestSet


def lower_and_generate(
    module: "tvm.IRModule",
    target: "tvm.target.Target",
    request: PackageOptions,
    inputs: int,
    best: BestSet | None = None,
    record: PassRecord | None = None,
    times: PassTimes | None = None,
) -> tuple[Lowered, Any]:
    """A module's code (a ``relax.VMExecutable``), and what it was made of.

    A record or a rule that has no code costs its kernel the schedule, not the build.

    Args:
        inputs: how many of ``main``'s arguments are the model's inputs.
        best: the records to schedule kernels with.
        record: what notes the passes that run.
        times: what notes how long they run.

    Raises:
        InputError: a user pass fails, or there is no code for the module even so.
    """
    where = f"targets.{request.target_name}"
    options = request.build
    refused: dict[str, str] = {}
    plain: dict[str, str] = {}
    instruments = [one for one in (record, times) if one is not None]
    while True:
        if record:
            record.begin(module)
        with _changed_rules(options):
            lowered = lower(
                module,
                target,
                request.passes,
                options,
                inputs,
                partial(apply_best, target=target, best=best, refused=refused) if best else None,
                options.cuda_graph,
                options.schedule_rules,
                plain,
                instruments,
            )
        refuse_python_functions(lowered.final, f"models.{request.model}")
        try:
            executable = generate(lowered.final, target, options, where, instruments)
        except InputError as error:
            found = unbuildable_kernels(lowered, target)
            if not found:
                raise (_failure(options, error.problem) or error) from None
            plain |= {name: reason for name, reason in found.items() if name in lowered.ruled}
            refused |= {name: reason for name, reason in found.items() if name in lowered.tuned}
        else:
            return replace(lowered, refused=plain), executable


@contextmanager
def _changed_rules(options: PassOptions) -> Iterator[None]:
    """Say that it may be the user's settings of passes which TVM fails with, where there are any."""
    try:
        yield
    except TvmakeError:
        raise
    except Exception as error:
        raise (_failure(options, cause(error)) or error) from error


def _failure(options: PassOptions, problem: str) -> InputError | None:
    """The error that names the settings, where there are any."""
    chosen = {"pass_config": [*options.pass_config], "disabled_passes": options.disabled_passes}
    given = "; ".join(f"{key}: {', '.join(names)}" for key, names in chosen.items() if names)
    return InputError("build", f"with {given}: {problem}", "leave them out one by one") if given else None
