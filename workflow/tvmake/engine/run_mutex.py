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

from tvmake.errors import MachineError
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.files import writing

STATE = SNAKEMAKE_STATE


@contextmanager
def only_run() -> Iterator[None]:
    """Hold the working directory for one run; a lock of Snakemake's that a killed run of ours left is removed.

    Snakemake's lock is ours to remove when the run that died was a ``tvmake make``: it leaves its own mark for as long
    as it works. A lock without that mark belongs to a plain ``snakemake``, which may be alive.

    Raises:
        MachineError: another run is at work here, or the directory cannot be written.
    """
    mark = STATE / "tvmake.pid"
    lock = FileLock(STATE / "tvmake.lock", timeout=0)
    with writing(STATE):
        STATE.mkdir(exist_ok=True)
        try:
            lock.acquire()
        except Timeout:
            raise MachineError(
                str(Path.cwd()),
                f"another `tvmake make` is at work here{_process(mark)}",
                "wait for it to end, or work in another directory with --directory",
            ) from None
    try:
        with writing(mark):
            if mark.exists() and _forget_locks():
                print("note: the last run here was killed; its lock is removed", file=sys.stderr)
            mark.write_text(f"{os.getpid()}\n")
        yield
    finally:
        # Reached after errors and Ctrl-C too: Snakemake has removed its own lock by then.
        mark.unlink(missing_ok=True)
        lock.release()


def _process(mark: Path) -> str:
    try:
        return f" (process {int(mark.read_text())})"
    except (OSError, ValueError):
        return ""


def _forget_locks() -> bool:
    locks = STATE / "locks"
    if not any(locks.glob("*.lock")):
        return False
    shutil.rmtree(locks)
    return True
