"""One ``tvmake make`` at a time in a directory, and what a killed one left behind.

Snakemake locks the files of a run too, but it cannot tell a lock whose owner was killed from one in use. This lock is
the kernel's (flock), so it ends with its owner.
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
    """Hold the working directory for one run; a lock of Snakemake's that a killed run of ours left is removed.

    Snakemake's lock is ours to remove when the run that died was a ``tvmake make``: it leaves its own mark for as long
    as it works. A lock without that mark belongs to a plain ``snakemake``, which may be alive.

    Raises:
        MachineError: another run is at work here, or the directory cannot be written.
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
                f"another `tvmake make` is at work here{_process()}",
                "wait for it to end, or work in another directory with --directory",
            ) from None
    try:
        with writing(MARK):
            if MARK.exists() and _forget_locks():
                print("note: the last run here was killed; its lock is removed", file=sys.stderr)
            write_text(MARK, f"{os.getpid()}\n")
        yield
    finally:
        # Reached after errors and Ctrl-C too: Snakemake has removed its own lock by then.
        MARK.unlink(missing_ok=True)
        lock.release()


def is_at_work() -> bool:
    """Whether a `tvmake make` of this machine is at work here."""
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


def _forget_locks() -> bool:
    if not any(LOCKS.glob("*.lock")):
        return False
    shutil.rmtree(LOCKS)
    return True
