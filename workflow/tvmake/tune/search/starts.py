"""Initial schedules, which are likely to be good and are measured before random ones."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import tvm

from tvmake.artifact.range_traces import RangeSchedule, range_of, read_trace, write_trace
from tvmake.artifact.size_points import SizePoint
from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
from tvmake.codegen.scheduling.replay import replay_all
from tvmake.process.isolation import Refused
from tvmake.records.preference import MARGIN, RULE
from tvmake.records.record import PointSamples
from tvmake.records.store import StoredRecord
from tvmake.records.workload import Workload
from tvmake.targets.backends import backend_of
from tvmake.targets.weights.prepack import split
from tvmake.tune.measure.interface import Candidate
from tvmake.tune.trace import trace_json

Origin = Literal["rule", "tile", "nearest"]
"""Origins: the schedule of the target's rules, other tiles of the same rule, or records of kernels with other extents."""

ORIGINS: tuple[Origin, ...] = ("rule", "tile", "nearest")
"""Values of a record's strategy for initial schedules."""


@dataclass(frozen=True)
class Start:
    """A schedule to measure first."""

    origin: Origin
    trace: Any
    """The trace in the format of records."""
    kernel: "tvm.tirx.PrimFunc"
    """The kernel with this schedule."""


def candidate(number: int, kernel: "tvm.tirx.PrimFunc", points: Sequence[SizePoint] = ()) -> Candidate:
    """Create a candidate of a scheduled kernel. Weights are packed in advance, which is not the kernel's work.

    Args:
        points: the sizes of its dynamic dimensions at which it is timed.
    """
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    parts = split(kernel)
    function = parts.compute if parts else kernel
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    return Candidate(number, module, () if points else ArgInfo.from_prim_func(module["main"]), points)


def starts_at_points(workload: Workload, points: Sequence[SizePoint]) -> Iterator[Start]:
    """Yield schedules of a kernel with dynamic dimensions: that of a package without tuning, then others of the same rules."""
    backend = backend_of(workload.target)
    if not backend.has_ranges:
        yield from starts_by_rule(workload)
        yield from further_starts(workload)
        return
    light_intrinsics(workload.target)
    sizes = [point.sizes for point in points]
    origin: Origin = "rule"
    for ranges, kernel in backend.ranged_kernels(workload.module["main"], workload.target, sizes):
        yield Start(origin, write_trace(ranges), kernel)
        origin = "tile"


def combined_start(workload: Workload, stored: Iterable[StoredRecord]) -> Iterator[Start]:
    """Yield the schedule with the best code of the records for each range of sizes, if there are ranges.

    Other code than that of the rules must be faster by :data:`~tvmake.records.preference.MARGIN` in the mean over the range's
    sizes, and at none of them slower by more.

    Args:
        stored: records that were measured at the same sizes.
    """
    backend, function = backend_of(workload.target), workload.module["main"]
    ranged = list(_select_ranged(stored)) if backend.has_ranges else []
    rule = next((entry for entry in ranged if entry.is_rule), None)
    if rule is None:
        return
    same = [entry for entry in ranged if _limits(entry.ranges) == _limits(rule.ranges)]
    numbers = [range_of(rule.ranges, backend.leading_size(function, point.sizes)) for point in rule.points]

    def time(entry: _RangedRecord, number: int) -> float:
        """The time in a range, relative to that of the rules' code."""
        ratios = [
            min(own.samples_s) / min(base.samples_s)
            for own, base, part in zip(entry.points, rule.points, numbers, strict=True)
            if part == number
        ]
        mean = sum(ratios) / max(1, len(ratios)) * (1 + MARGIN)
        return 1.0 if entry is rule or not ratios or max(ratios) > 1 + MARGIN else mean

    best = [
        min([rule, *same], key=lambda entry: time(entry, number)).ranges[number] for number in range(len(rule.ranges))
    ]
    (kernel,) = replay_all([(workload, write_trace(best))])
    if not isinstance(kernel, Refused):
        yield Start("tile", write_trace(best), kernel)


@dataclass(frozen=True)
class _RangedRecord:
    """A working record of a kernel with ranges."""

    ranges: list[RangeSchedule]
    points: Sequence[PointSamples]
    is_rule: bool


def _select_ranged(stored: Iterable[StoredRecord]) -> Iterator[_RangedRecord]:
    for record in stored:
        if record.latency_ms is not None:
            with suppress(ValueError):
                if ranges := read_trace(record.record.trace):
                    yield _RangedRecord(ranges, record.points, record.record.strategy == RULE)


def _limits(ranges: Sequence[RangeSchedule]) -> list[int]:
    return [part.largest for part in ranges]


def starts_by_rule(workload: Workload) -> Iterator[Start]:
    """Yield the kernel's schedule in a package without tuning, if there is one."""
    schedule = backend_of(workload.target).schedule_by_rule(workload.module["main"], workload.target)
    if schedule is not None:
        yield _start("rule", schedule)


def further_starts(workload: Workload) -> Iterator[Start]:
    """Yield other schedules of the same rule, those with the lowest estimated time first."""
    for schedule in backend_of(workload.target).further_schedules(workload.module["main"], workload.target):
        yield _start("tile", schedule)


def _start(origin: Origin, schedule: "tvm.s_tir.Schedule") -> Start:
    return Start(origin, trace_json(schedule.trace), schedule.mod["main"])
