"""Allow one ``tvmake make`` at a time in a directory, and clean up after a killed one.

Snakemake locks the files of a run too, but cannot distinguish the lock of a killed run from one in use. This lock is
the kernel's (flock): it ends with its process.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from tvmake.engine.state_directory import LOCK, LOCKS, MARK, STATE, check_state_dir, running_process
from tvmake.errors import MachineError
from tvmake.storage.files import write_text, writing


@contextmanager
def only_run() -> Iterator[None]:
    """Lock the working directory for one run. A lock of Snakemake's is removed if a killed run of tvmake left it.

    A ``tvmake make`` has a mark file while it runs. If it was killed, its mark shows that Snakemake's lock can be removed. A
    lock without that mark belongs to a plain ``snakemake``, which may be running.

    Raises:
        MachineError: another run is active here, or the directory cannot be written.
    """
    lock = FileLock(LOCK, timeout=0)
    with writing(STATE):
        STATE.mkdir(exist_ok=True)
        check_state_dir()
        try:
            lock.acquire()
        except Timeout:
            raise MachineError(
                str(Path.cwd()),
                f"another `tvmake make` is running here{_process()}",
                "wait for it to end, or use another directory with --directory",
            ) from None
    try:
        with writing(MARK):
            if MARK.exists() and _remove_locks():
                print("note: the last run here was killed; its lock was removed", file=sys.stderr)
            write_text(MARK, f"{os.getpid()}\n")
        yield
    finally:
        # Also reached after errors and Ctrl-C: Snakemake has removed its own lock by then.
        MARK.unlink(missing_ok=True)
        lock.release()


def is_run_active() -> bool:
    """Whether a `tvmake make` of this machine is running here."""
    process = running_process()
    if process is None:
        return False
    try:
        os.kill(process, 0)
    except PermissionError:
        return True  # of another user
    except (OSError, OverflowError):
        return False
    return True


def _process() -> str:
    process = running_process()
    return "" if process is None else f" (process {process})"


def check_snakemake_lock() -> None:
    """Refuse a run beside a plain ``snakemake``, before anything of its results is removed.

    Raises:
        MachineError: Snakemake's lock is held.
    """
    if _has_lock():
        raise locked_error()


def locked_error() -> MachineError:
    """The error for Snakemake's lock."""
    return MachineError(
        "snakemake",
        "another run uses this directory, or was killed in it",
        "wait for it; if none is running, remove its lock with `tvmake make --unlock`",
    )


def _has_lock() -> bool:
    return any(LOCKS.glob("*.lock"))


def _remove_locks() -> bool:
    if not _has_lock():
        return False
    shutil.rmtree(LOCKS)
    return True
