"""A schedule's trace as JSON, in the format of MetaSchedule's database."""

from typing import Any

import tvm
import tvm_ffi

from tvmake.storage.files import canonical_json


def trace_json(trace: "tvm.s_tir.Trace") -> Any:
    """Convert the trace to lists, strings and numbers; ``tune.replay`` applies it.

    Objects in the trace (the index maps of rewritten layouts) become TVM's JSON as a string, as ``JSONDumps`` of
    tvm/src/s_tir/meta_schedule/utils.h does when a database is written. ``TuningRecord.as_json`` fails on them.
    """
    return _plain(trace.as_json())


def trace_key(candidate: Any) -> str:
    """Return a key that identifies one of MetaSchedule's candidates."""
    return canonical_json(trace_json(candidate.sch.trace))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return value.value
    if isinstance(value, tvm_ffi.Array | list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, tvm_ffi.Map | dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return tvm.ir.save_json(value)
