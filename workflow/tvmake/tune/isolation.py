"""Work on data of others in a fork, because TVM 0.27 crashes on some of it, and a job must not."""

import faulthandler
import os
import resource
import signal
import struct
from collections.abc import Callable, Sequence
from typing import BinaryIO, NoReturn, TypeVar

from tvmake.lifeline import die_with

LIMIT_S = 60
"""For one piece of work, in seconds; replaying a right trace takes milliseconds."""

HEAD = struct.Struct("!?I")
"""Whether it worked, and the length of the answer that follows."""

Asked = TypeVar("Asked")


class Refused(Exception):
    """Data that cannot be worked on; the text says why, in one line."""

    def __init__(self, reason: str, is_final: bool = True):
        super().__init__(reason)
        self.is_final = is_final
        """It is the data's fault; not so where time or memory ran out, which may be there the next time."""


def each_isolated(
    asked: Sequence[Asked], work: Callable[[Asked], bytes], failure: str, limit_s: int = LIMIT_S
) -> list[bytes | Refused]:
    """Do a piece of work for each, in a fork; after one that ends it, in another.

    Args:
        work: may raise :class:`Refused`; anything else that it raises is a defect, and ends the fork.
        failure: what it means when the fork ends, in a few words.
        limit_s: for one piece.

    Returns:
        For each, what ``work`` gave, or why it gave nothing.
    """
    results: list[bytes | Refused] = []
    while len(results) < len(asked):
        results += _some(asked[len(results) :], work, failure, limit_s)
    return results


def _some(asked: Sequence[Asked], work: Callable[[Asked], bytes], failure: str, limit_s: int) -> list[bytes | Refused]:
    """Work until the end, or up to the first piece that ends the process."""
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _serve(asked, work, limit_s, writing, parent)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        results = list(iter(lambda: _receive(answers), None))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if len(results) < len(asked):
        results.append(_why_it_ended(code, failure, limit_s))
    return results


def _why_it_ended(code: int, failure: str, limit_s: int) -> Refused:
    if code == -signal.SIGALRM:
        return Refused(f"{failure}: TVM does not end within {limit_s} s", is_final=False)
    how = signal.Signals(-code).name if code < 0 else f"code {code}"
    # Killed for want of memory, or ended by a defect of ours: neither is the data's fault.
    return Refused(f"{failure}: TVM ends with {how}", is_final=code < 0 and code != -signal.SIGKILL)


def _serve(asked: Sequence[Asked], work: Callable[[Asked], bytes], limit_s: int, writing: int, parent: int) -> NoReturn:
    die_with(parent)
    # The default action ends the process even inside TVM. Nobody needs the core or the stack traces of a crash.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    code = 1
    try:
        with os.fdopen(writing, "wb") as answers:
            for one in asked:
                signal.alarm(limit_s)
                try:
                    worked, answer = True, work(one)
                except Refused as error:
                    worked, answer = False, str(error).encode()
                answers.write(HEAD.pack(worked, len(answer)) + answer)
                answers.flush()
        code = 0
    finally:
        os._exit(code)


def _receive(answers: BinaryIO) -> bytes | Refused | None:
    head = answers.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    worked, length = HEAD.unpack(head)
    answer = answers.read(length)
    if len(answer) < length:
        return None
    return answer if worked else Refused(answer.decode())
