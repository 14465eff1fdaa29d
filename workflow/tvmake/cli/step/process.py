"""Run a stage in a child process and report in one line how it ended.

Models, datasets and generated code can crash a process (a damaged library, an out-of-range index, no memory left).
The child does the work. This process waits, forwards signals, and turns a crash into a clear message.
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
"""mallopt(3): setting this also stops glibc from raising it."""

LARGE_BLOCK_BYTES = 128 * 1024
"""glibc's initial value."""

DEFECT = 70
"""Exit code for a defect of tvmake (EX_SOFTWARE of sysexits.h)."""

NO_THREAD = "can't start new thread"
"""Python's message if the system cannot start another thread."""

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
        return _report(error)
    return ended.code if ended.code >= 0 else _report_stop(stage, -ended.code)


def _failure(stage: str, ended: Ended) -> TvmakeError | None:
    """The error of a process that could not report it; None if it did, or was stopped."""
    if ended.exceeded is not None:
        return ended.exceeded
    if ended.code >= 0:
        if ended.is_whole:
            return None
        problem = f"its process exited with code {ended.code}"
        if ended.within:
            return InputError(ended.within, problem, "look for os._exit() in it or in a library that it calls")
        return InputError(stage, problem, "look for os._exit() in the model's code or in a library that it calls")
    if -ended.code in STOPS:
        return None
    name = signal.Signals(-ended.code).name
    if -ended.code == signal.SIGKILL:
        return DeviceError(
            ended.within or stage, f"the process was killed by {name}", "the system may be out of memory"
        )
    if ended.within:
        remedy = "check the native code that it calls: the log has the stack"
        return InputError(ended.within, f"it crashed its process with {name}", remedy)
    return DeviceError(
        stage,
        f"the process crashed with {name}",
        "the input may be damaged or hostile, or the compiler may have a defect",
    )


def _run(stage: str, work: Callable[[], object]) -> int:
    try:
        work()
    except TvmakeError as error:
        return _report(error)
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        from tvmake.process.user_code import error_location

        if not is_stopped() and (raised_at := error_location(error)):
            problem = f"the model's code raises {type(error).__name__}{raised_at}"
            return _report(InputError(stage, problem, "end it with `return`; remove the call that exits the program"))
        if isinstance(error, SystemExit):
            return _report(InputError(stage, "code that it calls exits the program", "look for sys.exit() in it"))
        print(f"error: {stage}: interrupted; no incomplete file is left, run again to continue", file=sys.stderr)
        return 130
    except MemoryError:
        return _report(
            MachineError(stage, "not enough memory", "close other programs, or run fewer jobs in parallel (--cores 1)")
        )
    except OSError as error:
        refusal = _refusal(stage, error)
        return _report_defect(stage, error) if refusal is None else _report(refusal)
    except Exception as error:  # noqa: BLE001  # nothing above can report the error
        refusal = system_error(errno.EAGAIN, stage) if str(error) == NO_THREAD else None
        return _report_defect(stage, error) if refusal is None else _report(refusal)
    return 0


def _refusal(stage: str, error: OSError) -> TvmakeError | None:
    """The system's refusal of temporary files, or of files that existed when the stage began.

    Errors of the files that a stage writes are translated where they are written.
    """
    file = str(error.filename or "")
    if error.errno == errno.ENOENT and file and Path(file).absolute().is_relative_to(Path.cwd()):
        return deleted(file)
    return system_error(error.errno or 0, file or stage)


def _report(error: TvmakeError) -> int:
    print_error(error)
    return error.exit_code


def _report_defect(stage: str, error: Exception) -> int:
    traceback.print_exception(error)
    summary = " ".join(str(error).split())[:300]
    print(
        f"error: {stage}: {type(error).__name__}: {summary}\n  this is a defect of tvmake; please report it with the log above",
        file=sys.stderr,
    )
    return DEFECT


def _report_stop(stage: str, number: int) -> int:
    name = signal.Signals(number).name
    print(f"error: {stage}: ended by {name}; no incomplete file is left, run again to continue", file=sys.stderr)
    return 128 + number


def _return_freed_memory() -> None:
    """Return freed weights to the system immediately.

    glibc raises its threshold for returning memory whenever a large block is freed; reading and converting a model
    frees several copies of its weights, which then stay in the heap: 100 MB for a 100 MB model.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc only
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
