"""Run a stage in a child process and say in one line how it ended.

Models, datasets and generated code can crash a process (a damaged library, an out-of-range index, no memory left).
The child does the work; this process only waits, forwards signals, and turns a crash into a clear line.
"""

import ctypes
import errno
import json
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tvmake.errors import DeviceError, InputError, MachineError, TvmakeError, print_error
from tvmake.process.limits import Ended, run_watched
from tvmake.process.stopping import is_stopped, stoppable
from tvmake.storage.refusals import deleted, system_error

M_MMAP_THRESHOLD = -3
"""mallopt(3): setting it also ends its growth."""

LARGE_BLOCK_BYTES = 128 * 1024
"""glibc's own first value."""

DEFECT = 70
"""Exit code of a failure that is tvmake's own fault (EX_SOFTWARE of sysexits.h)."""

NO_THREAD = "can't start new thread"
"""How Python says that the system starts no more."""

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that stop a run."""


def run_guarded(stage: str, work: Callable[[], object]) -> int:
    """Run ``work`` in a forked child and return the exit code for this process.

    Must be called before TVM or torch is imported: their threads do not survive a fork.
    """
    began = time.monotonic()

    def child() -> int:
        _return_freed_memory()
        with stoppable():
            return _run(stage, work)

    ended = run_watched(child)
    error, used = _failure(stage, ended), ended.usage
    usage = {
        "stage": stage,
        "exit": ended.code if error is None else error.exit_code,
        "wall_s": round(time.monotonic() - began, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "peak_memory_mb": used.ru_maxrss // 1024,
    }
    print(json.dumps(usage), flush=True)
    if error is not None:
        return _reported(error)
    return ended.code if ended.code >= 0 else _stopped(stage, -ended.code)


def _failure(stage: str, ended: Ended) -> TvmakeError | None:
    """Why the process could not say itself how its work ended; None where it could, or where it was stopped."""
    if ended.exceeded is not None:
        return ended.exceeded
    if ended.code >= 0:
        if ended.is_whole:
            return None
        problem = f"its process ended itself with exit code {ended.code}"
        if ended.within:
            return InputError(ended.within, problem, "look for os._exit() in it, or in a library that it calls")
        return InputError(stage, problem, "look for os._exit() in the code of the model, or of a library that it calls")
    if -ended.code in STOPS:
        return None
    name = signal.Signals(-ended.code).name
    if -ended.code == signal.SIGKILL:
        return DeviceError(ended.within or stage, f"the process was ended by {name}", "the system may be out of memory")
    if ended.within:
        remedy = "look at what it calls that is not written in Python: the log has the lines where it was"
        return InputError(ended.within, f"it crashed its process with {name}", remedy)
    return DeviceError(stage, f"the process crashed with {name}", "a damaged or hostile input, or a compiler defect")


def _run(stage: str, work: Callable[[], object]) -> int:
    try:
        work()
    except TvmakeError as error:
        return _reported(error)
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        from tvmake.process.user_code import error_location

        if not is_stopped() and (raised_at := error_location(error)):
            problem = f"code of the model raises {type(error).__name__}{raised_at}"
            return _reported(InputError(stage, problem, "it ends with `return`; take out what exits the program"))
        if isinstance(error, SystemExit):
            return _reported(
                InputError(stage, "something that it calls exits the program", "look for sys.exit() in it")
            )
        print(f"error: {stage}: interrupted; nothing half-written is left, run again to go on", file=sys.stderr)
        return 130
    except MemoryError:
        return _reported(
            MachineError(stage, "not enough memory", "close other programs, or run fewer jobs at once (--cores 1)")
        )
    except OSError as error:
        refused = _refused(stage, error)
        return _defect(stage, error) if refused is None else _reported(refused)
    except Exception as error:  # noqa: BLE001  # the last point that can report the error
        refused = system_error(errno.EAGAIN, stage) if str(error) == NO_THREAD else None
        return _defect(stage, error) if refused is None else _reported(refused)
    return 0


def _refused(stage: str, error: OSError) -> TvmakeError | None:
    """What the system refuses of temporary files, say, or of those that were there when the stage began.

    What a stage writes is translated where it is written.
    """
    file = str(error.filename or "")
    if error.errno == errno.ENOENT and file and Path(file).absolute().is_relative_to(Path.cwd()):
        return deleted(file)
    return system_error(error.errno or 0, file or stage)


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


def _stopped(stage: str, number: int) -> int:
    name = signal.Signals(number).name
    print(f"error: {stage}: ended by {name}; nothing half-written is left, run again to go on", file=sys.stderr)
    return 128 + number


def _return_freed_memory() -> None:
    """Give freed weights back to the system at once.

    glibc raises its threshold for returning memory whenever a large block is freed; reading and converting a model
    frees several copies of its weights, which then stay in the heap: 100 MB for a 100 MB model.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc only
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
