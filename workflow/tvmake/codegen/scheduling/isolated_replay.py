"""Replay traces in a forked process, because a damaged trace may end the process.

Repair: `damaged-traces`.
"""

from collections.abc import Sequence
from typing import Any

import tvm

from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
from tvmake.codegen.scheduling.replay import replay
from tvmake.process.isolation import Refused, map_isolated
from tvmake.records.workload import Workload

FAILURE = "the trace does not apply"


def replay_all(traces: Sequence[tuple[Workload, Any]]) -> "list[tvm.tirx.PrimFunc | Refused]":
    """Apply each trace to its workload; see :func:`tvmake.codegen.scheduling.replay.replay`.

    Returns:
        For each trace, the scheduled kernel, or the reason why there is none.
    """
    for target in {id(workload.target): workload.target for workload, _ in traces}.values():
        light_intrinsics(target)
    results = map_isolated(traces, lambda pair: tvm.ir.save_json(replay(*pair)).encode(), FAILURE)
    return [result if isinstance(result, Refused) else tvm.ir.load_json(result.decode()) for result in results]
