"""Where a search starts: schedules that are likely to be good, and are measured before it draws any."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import tvm

from tvmake.codegen.lowering import is_cpu, is_gpu
from tvmake.records.workload import Workload
from tvmake.targets import gpu_rules
from tvmake.targets.cpu.schedules import rule
from tvmake.targets.weights.prepack import split
from tvmake.tune.measure.interface import Candidate
from tvmake.tune.trace import trace_json

Origin = Literal["rule", "nearest"]
"""The rules of the target, or the records of kernels that differ from this one in extents only."""

ORIGINS: tuple[Origin, ...] = ("rule", "nearest")
"""What records of starts have in place of a strategy."""


@dataclass(frozen=True)
class Start:
    """A schedule to measure first."""

    origin: Origin
    trace: Any
    """As records keep it."""
    kernel: "tvm.tirx.PrimFunc"
    """The kernel with this schedule."""

    def candidate(self, number: int) -> Candidate:
        """What to measure. Weights come packed: packing them is not the kernel's work."""
        from tvm.s_tir.meta_schedule.arg_info import ArgInfo

        parts = split(self.kernel)
        function = parts.compute if parts else self.kernel
        module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        return Candidate(number, module, ArgInfo.from_prim_func(module["main"]))


def starts_by_rule(workload: Workload) -> Iterator[Start]:
    """The schedule that the kernel has in a package without tuning, and others of the same rule; nothing for kernels without one."""
    function, target = workload.module["main"], workload.target
    schedules: list[Any] = []
    if is_cpu(target):
        schedules = [rule.schedule_by_rule(function, target)]
    elif is_gpu(target):
        ours = gpu_rules.schedule_by_rule(function, target)
        first = gpu_rules.default_schedule(function, target) if ours is None else ours
        schedules = [first, *gpu_rules.further_schedules(function, target)]
    for schedule in schedules:
        if schedule is not None:
            yield Start("rule", trace_json(schedule.trace), schedule.mod["main"])
