"""Replay traces in a fork: TVM 0.27 crashes on about one in a hundred damaged ones, and a build must not."""

from collections.abc import Sequence
from typing import Any

from tvmake.quick_tvm import tvm
from tvmake.tune.isolation import Refused, each_isolated
from tvmake.tune.light_intrinsics import light_intrinsics
from tvmake.tune.replay import replay
from tvmake.tune.workload import Workload

FAILURE = "the trace does not apply"


def replay_all(asked: Sequence[tuple[Workload, Any]]) -> "list[tvm.tirx.PrimFunc | Refused]":
    """Apply each trace to its workload; see :func:`tvmake.tune.replay.replay`.

    Returns:
        For each, the scheduled kernel, or why there is none.
    """
    for target in {id(workload.target): workload.target for workload, _ in asked}.values():
        light_intrinsics(target)
    answers = each_isolated(asked, lambda one: tvm.ir.save_json(replay(*one)).encode(), FAILURE)
    return [one if isinstance(one, Refused) else tvm.ir.load_json(one.decode()) for one in answers]
