"""Generate code from a transformed module, without the schedules that the code generator cannot handle."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import tvm

from tvmake.codegen.compiler_errors import explain
from tvmake.codegen.large_tensors import count_refusal
from tvmake.codegen.link import cause, generate
from tvmake.codegen.lowering import Lowered, LoweringOptions, lower_function, refuse_python_functions
from tvmake.codegen.options import PackageOptions, PassOptions
from tvmake.codegen.passes import PassRecord, PassTimes, check_settings
from tvmake.codegen.run_kernel import ENTRY
from tvmake.codegen.scheduling.apply import apply_best
from tvmake.codegen.shapes.lowering import lower_shapes
from tvmake.errors import InputError, TvmakeError
from tvmake.process.isolation import Refused, map_isolated
from tvmake.records.best import BestSet
from tvmake.targets.backend import NO_WIDTHS
from tvmake.targets.backends import backend_of, kernel_pipeline
from tvmake.targets.kernels.scheduled_kernel import is_scheduled

BUILD_LIMIT_S = 600
"""Limit for building one kernel; large ones take some seconds."""


def lower_and_generate(
    module: "tvm.IRModule",
    target: "tvm.target.Target",
    request: PackageOptions,
    inputs: int,
    best: BestSet | None = None,
    record: PassRecord | None = None,
    times: PassTimes | None = None,
    widths: Mapping[str, int] = NO_WIDTHS,
) -> tuple[Lowered, Any]:
    """A module's code (a ``relax.VMExecutable``), and the lowered module.

    If the code generator fails on a record or a rule, its kernel loses the schedule, and the build continues.

    Args:
        inputs: number of model inputs among ``main``'s arguments.
        widths: the numbers of adjacent results for which another package packs parameters, by name.

    Raises:
        InputError: TVM refuses a pass setting, a user pass fails, or code generation fails without these schedules, too.
    """
    where = f"targets.{request.target_name}"
    options = request.build
    refused: dict[str, str] = {}
    plain: dict[str, str] = {}
    check_settings(options)
    instruments = [instrument for instrument in (record, times) if instrument is not None]
    while True:
        if record:
            record.begin(module)
        with _name_settings(options):
            how = LoweringOptions(
                target,
                request.passes,
                options,
                inputs,
                partial(apply_best, target=target, best=best, refused=refused) if best else None,
                options.cuda_graph,
                options.schedule_rules,
                plain,
                instruments,
                backend_of(target).memory(request.target),
                widths,
            )
            lowered = lower_shapes(module, how, request.shapes) if request.shapes else lower_function(module, how)
        refuse_python_functions(lowered.final, f"models.{request.model}")
        try:
            executable = generate(lowered.final, target, options, where, instruments)
        except InputError as error:
            unbuildable = _unbuildable_kernels(lowered, target)
            if not unbuildable:
                raise (_failure(options, error.problem) or error) from None
            plain |= {name: reason for name, reason in unbuildable.items() if name in lowered.ruled}
            refused |= {name: reason for name, reason in unbuildable.items() if name in lowered.tuned}
        else:
            return replace(lowered, refused=plain), executable


@contextmanager
def _name_settings(options: PassOptions) -> Iterator[None]:
    """Name the user's pass settings, if any, or a tensor with too many elements, in errors of TVM."""
    try:
        yield
    except TvmakeError:
        raise
    except Exception as error:
        raise (count_refusal(error) or _failure(options, cause(error)) or error) from error


def _failure(options: PassOptions, problem: str) -> InputError | None:
    """The error that names the settings, or None without settings."""
    chosen = {"pass_config": [*options.pass_config], "disabled_passes": options.disabled_passes}
    settings = "; ".join(f"{key}: {', '.join(names)}" for key, names in chosen.items() if names)
    return InputError("build", f"with {settings}: {problem}", "leave them out one by one") if settings else None


def _unbuildable_kernels(lowered: Lowered, target: "tvm.target.Target") -> dict[str, str]:
    """After a failed build: the kernels with a schedule that cannot be built even separately, with the reason.

    A schedule that replays may still fail: OpenCL's generator refuses some vectors, for example. If candidates are measured
    on a device, such a record never wins. If code is only generated, the build is the first step to fail.
    """

    def build(name: str) -> bytes:
        kernel = lowered.fused[name].with_attr("global_symbol", ENTRY)
        try:
            tvm.tirx.build(tvm.IRModule({ENTRY: kernel}), target=target, pipeline=kernel_pipeline(target))
        except (tvm.error.InternalError, RuntimeError, ValueError, TypeError, AttributeError) as error:
            raise Refused(explain(error)) from error
        return b""

    # GPU kernels that TVM's rules schedule later must have a schedule.
    names = sorted({*lowered.tuned, *(name for name in lowered.ruled if is_scheduled(lowered.fused[name]))})
    results = map_isolated(names, build, "it ends the code generator", BUILD_LIMIT_S)
    return {
        name: f"there is no code for its {_origin(name, lowered)}: {result}"
        for name, result in zip(names, results, strict=True)
        if isinstance(result, Refused)
    }


def _origin(name: str, lowered: Lowered) -> str:
    return f"record {lowered.tuned[name][:12]}" if name in lowered.tuned else "schedule by rules"
