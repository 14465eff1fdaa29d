"""Apply rules to all kernels of a module for a GPU; TVM's rules schedule the remaining kernels."""

from collections.abc import Collection, Sequence
from typing import Any

import tvm

from tvmake.ir.bounds import bounds_of
from tvmake.targets.gpu.bound_rule import BoundRule, Launching
from tvmake.targets.gpu.ranges.size_ranges import schedule_ranges
from tvmake.targets.gpu.schedule_checks import is_bound
from tvmake.targets.kernels.scheduled_kernel import is_scheduled, with_scheduled_body

Rule = Any
"""A schedule rule of dlight's kind."""


def apply_rules(
    module: "tvm.IRModule", target: "tvm.target.Target", rules: Sequence[Rule], refused: Collection[str] = ()
) -> "tvm.IRModule":
    """Schedule the unscheduled kernels of a module that a rule suits.

    Args:
        rules: the first suitable one schedules a kernel.
    """
    bounds = bounds_of(module)
    functions = dict(module.functions_items())
    for variable, function in functions.items():
        is_kernel = isinstance(function, tvm.tirx.PrimFunc) and not is_scheduled(function)
        if is_kernel and str(variable.name_hint) not in refused:
            scheduled = schedule_ranges(function, target, rules, bounds)
            if scheduled is None and (schedule := schedule_by_rule(function, target, rules)) is not None:
                scheduled = schedule.mod["main"]
            functions[variable] = function if scheduled is None else with_scheduled_body(function, scheduled)
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def schedule_by_rule(
    function: "tvm.tirx.PrimFunc", target: "tvm.target.Target", rules: Sequence[Rule]
) -> "tvm.s_tir.Schedule | None":
    """A kernel's schedule for a GPU, with its trace; None if no rule suits it."""
    if Launching().apply(function, target, False) is not None:
        return None
    with target:
        schedules = (BoundRule(rule).apply(function, target, False) for rule in rules)
        return next((schedule for schedule in schedules if schedule is not None), None)


def default_schedule(
    function: "tvm.tirx.PrimFunc", target: "tvm.target.Target", rules: Sequence[Rule]
) -> "tvm.s_tir.Schedule | None":
    """A kernel's schedule by TVM's rules, with its trace; None if it has or cannot have threads.

    Args:
        rules: TVM's; the last one accepts every kernel.
    """
    if Launching().apply(function, target, False) is not None:
        return None
    with target:
        schedule = next(
            (candidate for rule in rules if (candidate := rule.apply(function, target, False)) is not None), None
        )
    return schedule if schedule is not None and is_bound(schedule.mod["main"]) else None
