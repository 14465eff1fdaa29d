"""Replay a record's trace on its kernel."""

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi

from tvmake.artifact.range_traces import read_trace
from tvmake.codegen.compiler_errors import explain
from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
from tvmake.process.isolation import Refused, map_isolated
from tvmake.records.workload import Workload
from tvmake.targets.backends import backend_of

SEED = 1
"""Seed for decisions that a trace does not contain, so that all processes decide alike."""


FAILURE = "the trace does not apply"


class ReplayError(Refused):
    """A trace that cannot be replayed; the text is the reason, in one line."""


def replay(workload: Workload, trace: Any) -> "tvm.tirx.PrimFunc":
    """Apply a trace, including postprocessing.

    Args:
        trace: MetaSchedule's trace JSON (:func:`tvmake.tune.trace.trace_json`), or ranges of sizes
            (:func:`tvmake.artifact.range_traces.write_trace`).

    Returns:
        The scheduled kernel; its arguments are those of the unscheduled one.

    Raises:
        ReplayError: it is not a trace, it belongs to another kernel or kind of target, or it changes the kernel's
            arguments.
    """
    _check_form(trace)
    light_intrinsics(workload.target)
    scheduled = _replay_ranges(workload, trace) or _replay_trace(workload, trace)
    if _arguments(scheduled) != _arguments(workload.module["main"]):
        raise ReplayError("the trace changes the kernel's arguments")
    if reason := _why_not_for(scheduled, workload.target):
        raise ReplayError(reason)
    return scheduled


def _replay_ranges(workload: Workload, trace: Any) -> "tvm.tirx.PrimFunc | None":
    """The kernel with the schedules of a trace that names ranges of sizes; None for MetaSchedule's traces."""
    try:
        ranges = read_trace(trace)
        if ranges is None:
            return None
        return backend_of(workload.target).schedule_recorded_ranges(workload.module["main"], workload.target, ranges)
    except ValueError as error:
        raise ReplayError(str(error)) from error


def _replay_trace(workload: Workload, trace: Any) -> "tvm.tirx.PrimFunc":
    form = backend_of(workload.target).form_for_schedules(workload.module["main"])
    schedule = tvm.s_tir.Schedule(form, seed=SEED, debug_mask="none", error_render_level="fast")
    try:
        with workload.target:
            tvm.s_tir.Trace.apply_json_to_schedule(trace, schedule)
        module = schedule.mod
    # TVM may raise any exception on foreign data; they share no narrower class.
    except Exception as error:
        raise ReplayError(f"{FAILURE}: {explain(error)}") from error
    functions = [str(variable.name_hint) for variable in module.get_global_vars()]
    if functions != ["main"]:
        raise ReplayError(f"the trace makes several functions of the kernel: {', '.join(functions)}")
    return module["main"]


def replay_all(traces: Sequence[tuple[Workload, Any]]) -> "list[tvm.tirx.PrimFunc | Refused]":
    """Apply each trace to its workload (:func:`replay`) in a forked process, which a damaged trace may end.

    Repair: `damaged-traces`.

    Returns:
        For each trace, the scheduled kernel, or the reason why there is none.
    """
    for target in {id(workload.target): workload.target for workload, _ in traces}.values():
        light_intrinsics(target)
    results = map_isolated(traces, lambda pair: tvm.ir.save_json(replay(*pair)).encode(), FAILURE)
    return [result if isinstance(result, Refused) else tvm.ir.load_json(result.decode()) for result in results]


def _check_form(trace: Any) -> None:
    """Refuse decisions on missing instructions. Repair: `damaged-traces`."""
    if not (isinstance(trace, list) and len(trace) == 2 and all(isinstance(part, list) for part in trace)):
        raise ReplayError("not a trace: a list of instructions and a list of decisions")
    instructions, decisions = trace
    for decision in decisions:
        known = isinstance(decision, list) and len(decision) == 2 and type(decision[0]) is int
        if not known or not 0 <= decision[0] < len(instructions):
            raise ReplayError("not a trace: it decides on an instruction that it does not have")


def _why_not_for(scheduled: "tvm.tirx.PrimFunc", target: "tvm.target.Target") -> str | None:
    """Why a schedule is not for this kind of target; code generation detects it too late, or never."""
    bound: list[Any] = []
    tvm_ffi.structural_walk(
        scheduled.body, (tvm.tirx.For, lambda loop: None if loop.thread_binding is None else bound.append(loop))
    )
    binds_threads = backend_of(target).binds_threads
    if binds_threads and not bound:
        return "the trace is not for a GPU: it binds no loops to threads"
    return "the trace is for a GPU: it binds loops to threads" if bound and not binds_threads else None


def _arguments(function: "tvm.tirx.PrimFunc") -> list[str]:
    return [str(parameter.ty) for parameter in function.params]
