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
from tvmake.storage.temporary import remove_own_directories


def fork(
    work: Callable[[], int | None], *, leads: Literal["nothing", "group", "session"] = "nothing", is_bound: bool = True
) -> int:
    """Fork a process that runs ``work`` and ends.

    The exit code is the value of ``work`` (0 for None), or that of Python for an exception. Interpreter shutdown is
    skipped: destructors of TVM and torch take time, and have crashed after correct work. Threads do not survive a fork,
    so no thread may hold a lock.

    Args:
        leads: whether the process leads a group or a session, so that it can be signalled with its children.
        is_bound: whether it is killed when this thread ends.

    Returns:
        The process number, after the process leads and is bound.
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
        # Wait for a byte, not for the end of the file: a fork of another thread may hold this file open.
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
        remove_own_directories()
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
    """Run ``work`` in a fork (see :func:`fork`) and forward signals to it until it ends.

    Args:
        work: the fork's work.
        wait: waits for a child, and returns its wait status and resource usage.

    Returns:
        The exit code, negative for a signal, and the resource usage.
    """
    # Blocked until signals can be forwarded: before that, they would end this process only.
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
    """Signal the leader of a group or session with all its children; no effect if it has ended."""
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def disable_core_dumps() -> None:
    """Switch core dumps off for this process and its children, which may crash."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
