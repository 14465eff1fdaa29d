"""Replay traces in a fork: TVM 0.27 crashes on about one in a hundred damaged ones, and a build must not."""

import faulthandler
import json
import os
import resource
import signal
import struct
from collections.abc import Sequence
from typing import Any, BinaryIO, NoReturn

from tvmake.quick_tvm import tvm
from tvmake.tune.light_intrinsics import light_intrinsics
from tvmake.tune.replay import ReplayError, replay
from tvmake.tune.workload import Workload

LIMIT_S = 60
"""For one trace, in seconds; a right one takes milliseconds."""

LENGTH = struct.Struct("!I")


def replay_all(asked: Sequence[tuple[Workload, Any]]) -> "list[tvm.tirx.PrimFunc | ReplayError]":
    """Apply each trace to its workload; see :func:`tvmake.tune.replay.replay`.

    Returns:
        For each, the scheduled kernel, or why there is none.
    """
    for target in {id(workload.target): workload.target for workload, _ in asked}.values():
        light_intrinsics(target)
    results: list[tvm.tirx.PrimFunc | ReplayError] = []
    while len(results) < len(asked):
        results += _replay_some(asked[len(results) :])
    return results


def _replay_some(asked: Sequence[tuple[Workload, Any]]) -> "list[tvm.tirx.PrimFunc | ReplayError]":
    """Replay until the end, or up to the first trace that ends the process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _serve(asked, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        results = [_result(*answer) for answer in iter(lambda: _receive(answers), None)]
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if len(results) < len(asked):
        how = signal.Signals(-code).name if code < 0 else f"code {code}"
        results.append(ReplayError(f"the trace does not apply: TVM ends with {how}"))
    return results


def _serve(asked: Sequence[tuple[Workload, Any]], writing: int) -> NoReturn:
    # The default action ends the process even inside TVM. Nobody needs the core or the stack traces of a crash.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    code = 1
    try:
        with os.fdopen(writing, "wb") as answers:
            for workload, trace in asked:
                signal.alarm(LIMIT_S)
                try:
                    answer = [True, tvm.ir.save_json(replay(workload, trace))]
                except ReplayError as error:
                    answer = [False, str(error)]
                text = json.dumps(answer).encode()
                answers.write(LENGTH.pack(len(text)) + text)
                answers.flush()
        code = 0
    finally:
        os._exit(code)


def _receive(answers: BinaryIO) -> list[Any] | None:
    head = answers.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    text = answers.read(LENGTH.unpack(head)[0])
    return json.loads(text)


def _result(replayed: bool, text: str) -> "tvm.tirx.PrimFunc | ReplayError":
    return tvm.ir.load_json(text) if replayed else ReplayError(text)
