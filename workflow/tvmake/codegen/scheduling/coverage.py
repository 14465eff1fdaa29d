"""Compute the share of a build that its tuning records cover."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import tvm

from tvmake.artifact.manifest import Coverage
from tvmake.codegen.kernel_analysis import work
from tvmake.codegen.lowering import Lowered
from tvmake.codegen.size_points import kernel_points, network_points, values_of_shapes
from tvmake.codegen.tunable import mean, why_not_tuned
from tvmake.errors import InputError
from tvmake.records.best import BestKernel, BestSet
from tvmake.records.workload import workload
from tvmake.targets.kernels.scheduled_kernel import is_scheduled
from tvmake.targets.weights.layout_free import tensor_calls

NOT_TUNED = "tuning is off"

SHOWN = 5
"""Maximum number of misses listed in an error."""


@dataclass(frozen=True)
class _Tunable:
    """A kernel that tuning considers."""

    name: str
    calls: int
    work: float
    best: BestKernel | None


def coverage(lowered: Lowered, target: "tvm.target.Target", best: BestSet | None) -> Coverage:
    """Which kernels use a record, and their share of the time of all tunable kernels.

    Args:
        best: the applied records; None without tuning.
    """
    tunable, not_tunable = _kernels(lowered, target, best)
    times, basis = _times(tunable)
    total = sum(times.values())
    misses = sorted((name for name in times if name not in lowered.tuned), key=lambda name: (-times[name], name))
    return Coverage(
        tuned=len(tunable) - len(misses),
        tunable=len(tunable),
        time_share=round(1 - sum(times[name] for name in misses) / total, 4) if total else 1.0,
        basis=basis,
        misses={name: lowered.misses.get(name, NOT_TUNED) for name in misses},
        not_tunable=not_tunable,
    )


def require(share: float | None, covered: Coverage, where: str) -> None:
    """Refuse a build whose records cover too little.

    Raises:
        InputError: the covered share of time is below ``share``.
    """
    if share is None or covered.time_share >= share:
        return
    named = [f"{name} ({reason})" for name, reason in list(covered.misses.items())[:SHOWN]]
    more = f" and {len(covered.misses) - SHOWN} more" if len(covered.misses) > SHOWN else ""
    raise InputError(
        where,
        f"records cover {covered.time_share:.1%} of the kernels' estimated time, tuning.require_coverage asks for"
        f" {share:.1%}; no record: {', '.join(named)}{more}",
        "raise tuning.trials and run again, or lower tuning.require_coverage",
    )


def _kernels(
    lowered: Lowered, target: "tvm.target.Target", best: BestSet | None
) -> tuple[list[_Tunable], dict[str, str]]:
    """The kernels that tuning considers, and the others with the reason."""
    best_kernels = best.by_workload() if best else {}
    calls = Counter(str(call.args[0].name_hint) for call in tensor_calls(lowered.unscheduled))
    values = values_of_shapes(list(lowered.functions.values())) if best else None
    points_by_name = kernel_points(lowered.unscheduled, network_points(lowered.unscheduled, values))
    tunable: list[_Tunable] = []
    not_tunable: dict[str, str] = {}
    for variable, function in lowered.unscheduled.functions_items():
        if not isinstance(function, tvm.tirx.PrimFunc):
            continue
        name = str(variable.name_hint)
        points = points_by_name.get(name, ())
        # TVM's rules for GPUs do not mark kernels.
        has_rule = (name in lowered.ruled and is_scheduled(lowered.fused[name])) or None
        reason = None if name in lowered.tuned else why_not_tuned(function, target, points, has_rule=has_rule)
        if reason:
            not_tunable[name] = reason
        else:
            kernel = best_kernels.get(workload(function, target).key) if best_kernels else None
            tunable.append(_Tunable(name, calls[name], mean(work, function, points), kernel))
    return tunable, not_tunable


def _times(kernels: Sequence[_Tunable]) -> tuple[dict[str, float], Literal["latency", "operations"]]:
    """Estimated time of each kernel's calls.

    Measured latencies in ms, if there are any; a kernel without one is assumed to have the average operations per
    millisecond of the others. Without any latency, operations represent time.
    """
    latencies = {kernel.name: kernel.best.latency_ms for kernel in kernels if kernel.best and kernel.best.latency_ms}
    timed = [kernel for kernel in kernels if kernel.name in latencies]
    measured = sum(kernel.calls * latencies[kernel.name] for kernel in timed)
    if not measured:
        return {kernel.name: kernel.calls * kernel.work for kernel in kernels}, "operations"
    per_operation = measured / sum(kernel.calls * kernel.work for kernel in timed)
    return {
        kernel.name: kernel.calls * latencies.get(kernel.name, kernel.work * per_operation) for kernel in kernels
    }, "latency"
