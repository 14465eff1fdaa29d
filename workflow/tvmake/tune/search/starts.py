"""Where a search starts: schedules that are likely to be good, and are measured before it draws any."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import tvm

from tvmake.records.workload import Workload
from tvmake.targets.backends import backend_of
from tvmake.targets.weights.prepack import split
from tvmake.tune.measure.interface import Candidate
from tvmake.tune.trace import trace_json

Origin = Literal["rule", "tile", "nearest"]
"""The schedule that the rules of the target give, other tiles of the same rule, or the records of kernels that differ from this one in extents only."""

ORIGINS: tuple[Origin, ...] = ("rule", "tile", "nearest")
"""What records of starts have in place of a strategy."""


@dataclass(frozen=True)
class Start:
    """A schedule to measure first."""

    origin: Origin
    trace: Any
    """As records keep it."""
    kernel: "tvm.tirx.PrimFunc"
    """The kernel with this schedule."""


def candidate(number: int, kernel: "tvm.tirx.PrimFunc") -> Candidate:
    """What to measure of a scheduled kernel. Weights come packed: packing them is not the kernel's work."""
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    parts = split(kernel)
    function = parts.compute if parts else kernel
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    return Candidate(number, module, ArgInfo.from_prim_func(module["main"]))


def starts_by_rule(workload: Workload) -> Iterator[Start]:
    """The schedule that the kernel has in a package without tuning; nothing for kernels without one."""
    found = backend_of(workload.target).schedule_by_rule(workload.module["main"], workload.target)
    if found is not None:
        yield _start("rule", found)


def further_starts(workload: Workload) -> Iterator[Start]:
    """Other schedules of the same rule, those first that are estimated to be faster."""
    for schedule in backend_of(workload.target).further_schedules(workload.module["main"], workload.target):
        yield _start("tile", schedule)


def _start(origin: Origin, schedule: "tvm.s_tir.Schedule") -> Start:
    return Start(origin, trace_json(schedule.trace), schedule.mod["main"])
