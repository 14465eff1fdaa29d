"""Initial schedules, which are likely to be good and are measured before random ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tvm

from tvmake.artifact.size_points import SizePoint
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
