"""Apply schedule rules to all kernels of a module."""

from collections.abc import Collection

import tvm

from tvmake.targets.cpu.schedules.rule import schedule_kernel
from tvmake.targets.kernels.scheduled_kernel import is_scheduled, with_scheduled_body


def apply_rules(
    module: "tvm.IRModule", target: "tvm.target.Target", refused: Collection[str] = ()
) -> tuple["tvm.IRModule", frozenset[str]]:
    """Schedule the unscheduled kernels of a module.

    Returns:
        The module, and the names of the kernels that rules scheduled.
    """
    functions = dict(module.functions_items())
    names = set()
    for variable, function in functions.items():
        name = str(variable.name_hint)
        is_kernel = isinstance(function, tvm.tirx.PrimFunc) and not is_scheduled(function)
        schedule = schedule_kernel(function, target) if is_kernel and name not in refused else None
        if schedule is not None:
            functions[variable] = with_scheduled_body(function, schedule)
            names.add(name)
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos), frozenset(names)
