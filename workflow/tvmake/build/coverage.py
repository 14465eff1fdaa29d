"""How much of a build its tuning records cover, said honestly."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tvmake.artifact.manifest import Coverage
from tvmake.errors import InputError
from tvmake.quick_tvm import tvm
from tvmake.target.layout_free import tensor_calls
from tvmake.target.pipeline import Lowered
from tvmake.tune.best import BestKernel, BestSet
from tvmake.tune.trivial import why_trivial, work
from tvmake.tune.workload import workload

NOT_TUNED = "tuning is off"

SHOWN = 5
"""Misses that an error names."""


@dataclass(frozen=True)
class _Tunable:
    """A kernel that tuning considers."""

    name: str
    calls: int
    work: float
    known: BestKernel | None


def coverage(lowered: Lowered, target: "tvm.target.Target", best: BestSet | None) -> Coverage:
    """Which kernels use a record, and what share of the time of all that could.

    Args:
        best: the records that were applied; None when kernels are not tuned at all.
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


def require(wanted: float | None, got: Coverage, where: str) -> None:
    """Refuse a build whose records cover too little.

    Raises:
        InputError: the covered share of time is below ``wanted``.
    """
    if wanted is None or got.time_share >= wanted:
        return
    named = [f"{name} ({reason})" for name, reason in list(got.misses.items())[:SHOWN]]
    more = f" and {len(got.misses) - SHOWN} more" if len(got.misses) > SHOWN else ""
    raise InputError(
        where,
        f"records cover {got.time_share:.1%} of the kernels' estimated time, tuning.require_coverage asks for"
        f" {wanted:.1%}; no record: {', '.join(named)}{more}",
        "raise tuning.trials and run again, or lower tuning.require_coverage",
    )


def _kernels(
    lowered: Lowered, target: "tvm.target.Target", best: BestSet | None
) -> tuple[list[_Tunable], dict[str, str]]:
    """The kernels that tuning considers, and the others with the reason."""
    known = best.by_workload() if best else {}
    calls = Counter(str(call.args[0].name_hint) for call in tensor_calls(lowered.unscheduled))
    tunable: list[_Tunable] = []
    not_tunable: dict[str, str] = {}
    for variable, function in lowered.unscheduled.functions_items():
        if not isinstance(function, tvm.tirx.PrimFunc):
            continue
        name = str(variable.name_hint)
        reason = None if name in lowered.tuned else why_trivial(function)
        if reason:
            not_tunable[name] = reason
        else:
            own = known.get(workload(function, target).key) if known else None
            tunable.append(_Tunable(name, calls[name], work(function), own))
    return tunable, not_tunable


def _times(kernels: Sequence[_Tunable]) -> tuple[dict[str, float], Literal["latency", "operations"]]:
    """Estimated time of each kernel's calls.

    By measured latencies where there are any, in ms; a kernel without one is taken to do as many operations a
    millisecond as those with one do together. With no latencies at all, operations stand for time.
    """
    latencies = {one.name: one.known.latency_ms for one in kernels if one.known and one.known.latency_ms}
    timed = [kernel for kernel in kernels if kernel.name in latencies]
    taken = sum(kernel.calls * latencies[kernel.name] for kernel in timed)
    if not taken:
        return {kernel.name: kernel.calls * kernel.work for kernel in kernels}, "operations"
    per_operation = taken / sum(kernel.calls * kernel.work for kernel in timed)
    return {
        kernel.name: kernel.calls * latencies.get(kernel.name, kernel.work * per_operation) for kernel in kernels
    }, "latency"
