"""Generate code from a transformed module, without the schedules that the code generator cannot handle."""

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
    """A module's code (a ``relax.VMExecutable``), and the lowered module.

    If the code generator fails on a record or a rule, its kernel loses the schedule, and the build continues.

    Args:
        inputs: number of model inputs among ``main``'s arguments.
        best: the records to schedule kernels with.
        record: records the passes that run.
        times: records how long they run.

    Raises:
        InputError: a user pass fails, or code generation fails without these schedules, too.
    """
    where = f"targets.{request.target_name}"
    options = request.build
    refused: dict[str, str] = {}
    plain: dict[str, str] = {}
    instruments = [instrument for instrument in (record, times) if instrument is not None]
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
            unbuildable = unbuildable_kernels(lowered, target)
            if not unbuildable:
                raise (_failure(options, error.problem) or error) from None
            plain |= {name: reason for name, reason in unbuildable.items() if name in lowered.ruled}
            refused |= {name: reason for name, reason in unbuildable.items() if name in lowered.tuned}
        else:
            return replace(lowered, refused=plain), executable


@contextmanager
def _changed_rules(options: PassOptions) -> Iterator[None]:
    """Name the user's pass settings, if any, in errors of TVM."""
    try:
        yield
    except TvmakeError:
        raise
    except Exception as error:
        raise (_failure(options, cause(error)) or error) from error


def _failure(options: PassOptions, problem: str) -> InputError | None:
    """The error that names the settings, or None without settings."""
    chosen = {"pass_config": [*options.pass_config], "disabled_passes": options.disabled_passes}
    settings = "; ".join(f"{key}: {', '.join(names)}" for key, names in chosen.items() if names)
    return InputError("build", f"with {settings}: {problem}", "leave them out one by one") if settings else None
