"""A record's trace on its kernel: the schedule it stands for."""

from typing import Any

from tvmake.quick_tvm import tvm
from tvmake.tune.light_intrinsics import light_intrinsics
from tvmake.tune.measuring.failure import explain
from tvmake.tune.workload import Workload

SEED = 1
"""Decisions a trace does not state are drawn with this seed, so that they are the same in every process."""


class ReplayError(Exception):
    """A trace that does not give a kernel; the text says why, in one line."""


def replay(workload: Workload, trace: Any) -> "tvm.tirx.PrimFunc":
    """Apply a trace, postprocessing included.

    Args:
        trace: MetaSchedule's trace JSON (``Trace.as_json``).

    Returns:
        The scheduled kernel; its arguments are those of the unscheduled one.

    Raises:
        ReplayError: it is no trace, it belongs to another kernel, or it changes the kernel's arguments.
    """
    light_intrinsics(workload.target)
    schedule = tvm.s_tir.Schedule(workload.module, seed=SEED, debug_mask="none", error_render_level="fast")
    try:
        with workload.target:
            tvm.s_tir.Trace.apply_json_to_schedule(trace, schedule)
        module = schedule.mod
    # Whatever TVM thinks of foreign data; there is no narrower class that all of its complaints share.
    except Exception as error:
        raise ReplayError(f"the trace does not apply: {explain(error)}") from error
    functions = [str(variable.name_hint) for variable in module.get_global_vars()]
    if functions != ["main"]:
        raise ReplayError(f"the trace makes several functions of the kernel: {', '.join(functions)}")
    before, after = (_arguments(function) for function in (workload.module["main"], module["main"]))
    if before != after:
        raise ReplayError("the trace changes the kernel's arguments")
    return module["main"]


def _arguments(function: "tvm.tirx.PrimFunc") -> list[str]:
    return [str(parameter.ty) for parameter in function.params]
