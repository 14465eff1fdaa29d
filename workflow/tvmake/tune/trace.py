"""A schedule's trace as JSON, in the spelling of MetaSchedule's database."""

from typing import Any

import tvm
import tvm_ffi

from tvmake.storage.files import canonical_json


def trace_json(trace: "tvm.s_tir.Trace") -> Any:
    """The trace as lists, strings and numbers; ``tune.replay`` applies it.

    As ``JSONDumps`` of tvm/src/s_tir/meta_schedule/utils.h does when a database is written, objects inside (the index
    maps of rewritten layouts) become TVM's JSON as a string. ``TuningRecord.as_json`` fails on them.
    """
    return _plain(trace.as_json())


def trace_key(candidate: Any) -> str:
    """What tells one of MetaSchedule's candidates from the others."""
    return canonical_json(trace_json(candidate.sch.trace))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return value.value
    if isinstance(value, tvm_ffi.Array | list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, tvm_ffi.Map | dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return tvm.ir.save_json(value)
