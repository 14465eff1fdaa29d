"""Run a stage in a child process and say in one line how it ended.

Models, datasets and generated code can crash a process (a damaged library, an out-of-range index, no memory left).
The child does the work; this process only waits, forwards signals, and turns a crash into a clear line.
"""

import ctypes
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from types import FrameType

from tvmake.artifact.files import NO_SPACE, no_space
from tvmake.cli import print_error
from tvmake.errors import DeviceError, MachineError, TvmakeError
from tvmake.lifeline import die_with

M_MMAP_THRESHOLD = -3
"""mallopt(3): setting it also ends its growth."""

LARGE_BLOCK_BYTES = 128 * 1024
"""glibc's own first value."""

DEFECT = 70
"""Exit code of a failure that is tvmake's own fault (EX_SOFTWARE of sysexits.h)."""


def guarded(stage: str, work: Callable[[], object]) -> int:
    """Run ``work`` in a forked child and return the exit code for this process.

    Must be called before TVM or torch is imported: their threads do not survive a fork.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    began = time.monotonic()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        die_with(parent)
        # Ctrl-C reaches the whole process group; a second one, forwarded by the parent, must not interrupt the clean-up.
        signal.signal(signal.SIGTERM, _interrupt)
        _return_freed_memory()
        code = _run(stage, work)
        sys.stdout.flush()
        sys.stderr.flush()
        # Skips interpreter shutdown, where TVM's and torch's destructors cost time and have crashed after good work.
        os._exit(code)
    forwarded = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    previous = {number: signal.signal(number, _forward(child)) for number in forwarded}
    try:
        _, ended, used = os.wait4(child, 0)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    status = os.waitstatus_to_exitcode(ended)
    usage = {
        "stage": stage,
        "exit": status,
        "wall_s": round(time.monotonic() - began, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "peak_memory_mb": used.ru_maxrss // 1024,
    }
    print(json.dumps(usage), flush=True)
    return status if status >= 0 else _crashed(stage, -status)


def _run(stage: str, work: Callable[[], object]) -> int:
    try:
        work()
    except TvmakeError as error:
        return _reported(error)
    except KeyboardInterrupt:
        print(f"error: {stage}: interrupted; nothing half-written is left, run again to go on", file=sys.stderr)
        return 130
    except MemoryError:
        return _reported(
            MachineError(stage, "not enough memory", "close other programs, or run fewer jobs at once (--cores 1)")
        )
    except OSError as error:
        # Of temporary files, say; what a stage writes is translated where it is written.
        return _reported(no_space(error.filename or stage)) if error.errno in NO_SPACE else _defect(stage, error)
    except Exception as error:  # noqa: BLE001  # the last place that can say what happened
        return _defect(stage, error)
    return 0


def _reported(error: TvmakeError) -> int:
    print_error(error)
    return error.exit_code


def _defect(stage: str, error: Exception) -> int:
    traceback.print_exception(error)
    summary = " ".join(str(error).split())[:300]
    print(
        f"error: {stage}: {type(error).__name__}: {summary}\n  this is a defect of tvmake; please report it with the log above",
        file=sys.stderr,
    )
    return DEFECT


def _crashed(stage: str, number: int) -> int:
    name = signal.Signals(number).name
    if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        print(f"error: {stage}: ended by {name}; nothing half-written is left, run again to go on", file=sys.stderr)
        return 128 + number
    hint = (
        "the system may be out of memory"
        if number == signal.SIGKILL
        else "a damaged or hostile input, or a compiler defect"
    )
    return _reported(DeviceError(stage, f"the process crashed with {name}", hint))


def _forward(child: int) -> Callable[[int, FrameType | None], None]:
    def handler(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    return handler


def _return_freed_memory() -> None:
    """Give freed weights back to the system at once.

    glibc raises its threshold for returning memory whenever a large block is freed; reading and converting a model
    frees several copies of its weights, which then stay in the heap: 100 MB for a 100 MB model.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc only
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
