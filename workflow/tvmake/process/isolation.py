"""Work on foreign data in forks, because TVM may crash or hang on it and the job that reads it must not.

Repair: `damaged-traces`.
"""

import faulthandler
import os
import signal
import struct
from collections.abc import Callable, Sequence
from typing import BinaryIO, TypeVar

from tvmake.process.fork import disable_core_dumps, fork
from tvmake.process.supervised import exit_description

LIMIT_S = 60
"""The time limit of one item, in seconds; replaying a correct trace takes milliseconds."""

HEADER = struct.Struct("!?I")
"""Whether the work succeeded, and the length of the answer that follows."""

Item = TypeVar("Item")


class Refused(Exception):
    """Data that cannot be used; the text is the reason, in one line.

    Args:
        is_final: whether the data is the cause; False if time or memory ran out, which may not happen again.
    """

    def __init__(self, reason: str, is_final: bool = True):
        super().__init__(reason)
        self.is_final = is_final


def map_isolated(
    items: Sequence[Item], work: Callable[[Item], bytes], failure: str, limit_s: int = LIMIT_S
) -> list[bytes | Refused]:
    """Apply ``work`` to each item in a fork; after an item that ends the fork, continue in another.

    Args:
        work: may raise :class:`Refused`; any other exception is a defect, and ends the fork.
        failure: the meaning of the fork's end, in a few words.
        limit_s: the time limit of one item.

    Returns:
        For each item, the result of ``work``, or the reason without one.
    """
    results: list[bytes | Refused] = []
    while len(results) < len(items):
        results += _until_end(items[len(results) :], work, failure, limit_s)
    return results


def _until_end(
    items: Sequence[Item], work: Callable[[Item], bytes], failure: str, limit_s: int
) -> list[bytes | Refused]:
    """Results of the items up to the first that ends the process."""
    reading, writing = os.pipe()

    def serve() -> None:
        os.close(reading)
        _serve(items, work, limit_s, writing)

    child = fork(serve)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        results: list[bytes | Refused] = []
        while (result := _receive(answers)) is not None:
            results.append(result)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if len(results) < len(items):
        results.append(_refusal(code, failure, limit_s))
    return results


def _refusal(code: int, failure: str, limit_s: int) -> Refused:
    if code == -signal.SIGALRM:
        return Refused(f"{failure}: TVM does not end within {limit_s} s", is_final=False)
    # Killed for lack of memory, or ended by a defect of tvmake: the data is not the cause.
    how = exit_description(code).removeprefix("ended ")
    return Refused(f"{failure}: TVM ends {how}", is_final=code < 0 and code != -signal.SIGKILL)


def _serve(items: Sequence[Item], work: Callable[[Item], bytes], limit_s: int, writing: int) -> None:
    # The default action ends the process even inside TVM. Core dumps and stack traces are of no use.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    faulthandler.disable()
    disable_core_dumps()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with os.fdopen(writing, "wb") as answers:
        for item in items:
            signal.alarm(limit_s)
            try:
                succeeded, answer = True, work(item)
            except Refused as error:
                succeeded, answer = False, str(error).encode()
            answers.write(HEADER.pack(succeeded, len(answer)) + answer)
            answers.flush()


def _receive(answers: BinaryIO) -> bytes | Refused | None:
    header = answers.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    succeeded, length = HEADER.unpack(header)
    answer = answers.read(length)
    if len(answer) < length:
        return None
    return answer if succeeded else Refused(answer.decode())
