"""Fork child processes: bound to their parent, with streams flushed, and ended without the interpreter's shutdown."""

import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Literal, NoReturn

from tvmake.process.parent_death import end_with_parent
from tvmake.process.stopping import SIGNALS, unstoppable
from tvmake.storage.temporary import remove_ours


def fork(
    work: Callable[[], int | None], *, leads: Literal["nothing", "group", "session"] = "nothing", is_bound: bool = True
) -> int:
    """Fork a process that does ``work`` and ends.

    Its exit code is what ``work`` returns (0 for None), or that of an interpreter which the same exception would end.
    Interpreter shutdown is skipped: destructors of TVM and torch cost time there, and have crashed after good work.
    Threads do not survive a fork, so there should be none that hold locks.

    Args:
        leads: what the process becomes the leader of, so that it can be signalled with all that it starts.
        is_bound: whether it is killed when this thread ends.

    Returns:
        Its number, once it leads and is bound.
    """
    _flush()
    parent = os.getpid()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run(work, leads, parent if is_bound else None, writing)
    os.close(writing)
    try:
        os.read(reading, 1)
    finally:
        os.close(reading)
    return child


def _run(work: Callable[[], int | None], leads: str, parent: int | None, writing: int) -> NoReturn:
    code = 1
    try:
        if leads == "session":
            os.setsid()
        elif leads == "group":
            os.setpgid(0, 0)
        if parent is not None:
            end_with_parent(parent)
        unstoppable()
        # A byte, not the end of the file: a fork made by another thread may hold this file open.
        os.write(writing, b"+")
        os.close(writing)
        code = work() or 0
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BaseException:  # noqa: BLE001  # as the interpreter does at its end
        traceback.print_exc()
    finally:
        remove_ours()
        _flush()
        os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _wait(child: int) -> tuple[int, resource.struct_rusage]:
    return os.wait4(child, 0)[1:]


Wait = Callable[[int], tuple[int, resource.struct_rusage]]


def run_forked(work: Callable[[], int | None], wait: Wait = _wait) -> tuple[int, resource.struct_rusage]:
    """Do ``work`` in a fork (see :func:`fork`) and hand signals on to it until it ends.

    Args:
        work: what the fork does.
        wait: returns the wait status and use of a child, given its number, once it has ended.

    Returns:
        Its exit code, negative for a signal, and what it used.
    """
    # Kept back until they are handed on: at any time before, they would end this process alone.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

    def unmasked() -> int | None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return work()

    try:
        child = fork(unmasked)
        previous = {number: signal.signal(number, _forward(child)) for number in SIGNALS}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        status, usage = wait(child)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return os.waitstatus_to_exitcode(status), usage


def _forward(child: int) -> Callable[[int, FrameType | None], None]:
    def handler(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    return handler


def signal_group(leader: int, number: int) -> None:
    """Signal a process that leads a group or session, and all that it started; nothing happens if it has ended."""
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def disable_core_dumps() -> None:
    """Have crashes of this process and its children leave no files; for processes that may crash."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
