"""Temporary directories that are gone at the latest when the next one is made beside them after their owner died.

A directory is held by a lock of the kernel's on a file in it, for as long as its owner lives. Numbers of processes and names of machines
would not tell: containers share both. Where a file system has no locks, what a killed process left stays there.
"""

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tvmake.storage.refusals import temporary_file_refused

LOCK = "lock"
CONTENT = "content"

RANDOM_BYTES = 6
"""Of a name."""

LONGEST_KEPT_S = 7 * 24 * 3600.0
"""How long what an interrupted piece of work left waits for it to go on."""

_ours: dict[Path, int] = {}
"""Those that this process has made or is about to make, and its number, which a fork has not."""


@contextmanager
def held_directory(parent: Path, prefix: str) -> Iterator[Path]:
    """Give an empty directory in ``parent``, which exists; those of this prefix that nobody holds are removed.

    Args:
        prefix: of its name, which no other files there have.

    Raises:
        OSError: it cannot be made.
    """
    sweep(parent, prefix)
    place, lock = _make(parent, prefix)
    try:
        content = place / CONTENT
        content.mkdir(mode=0o700)
        yield content
    finally:
        _remove(place, lock)


@contextmanager
def temporary_directory(prefix: str) -> Iterator[Path]:
    """As :func:`held_directory`, in the system's directory for temporary files.

    Raises:
        MachineError: that is full, or a file there was to be larger than this process may write.
        OSError: it cannot be made.
    """
    parent = Path(tempfile.gettempdir())
    try:
        with held_directory(parent, prefix) as directory:
            yield directory
    except OSError as error:
        if refused := temporary_file_refused(error, parent):
            raise refused from error
        raise


@contextmanager
def kept_directory(parent: Path, name: str) -> Iterator[Path]:
    """Give a directory for work that may be interrupted: it holds what an earlier block of this name left that did not come to
    its end, and is gone when the block ends without an error.

    What nobody went on with for :data:`LONGEST_KEPT_S` is removed. While another process is at the same work, or where ``parent`` cannot
    be written or has no locks, the directory is an empty one of the system's, as of :func:`temporary_directory`.

    Args:
        parent: a directory for such directories alone; it need not exist.
    """
    _sweep_old(parent)
    held = _take(parent / name)
    if held is None:
        with temporary_directory(f"tvmake-{parent.name}-") as directory:
            yield directory
        return
    try:
        yield parent / name / CONTENT
    except BaseException:
        os.close(held)
        raise
    _remove(parent / name, held)


def _take(place: Path) -> int | None:
    """Make a directory, or take one that is there, and hold it; None where it is held, or cannot be."""
    lock = None
    try:
        (place / CONTENT).mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_same(place / LOCK, lock) and (place / CONTENT).is_dir():
            os.utime(place)
            return lock
    except OSError:
        pass
    if lock is not None:
        os.close(lock)
    return None


def _sweep_old(parent: Path) -> None:
    with suppress(OSError):
        for place in list(parent.iterdir()):
            with suppress(OSError):
                if time.time() - place.stat().st_mtime > LONGEST_KEPT_S:
                    _sweep(place)


def sweep(parent: Path, prefix: str) -> None:
    """Remove the directories of this prefix that this user made and no process holds."""
    with suppress(OSError):
        for name in os.listdir(parent):  # noqa: PTH208  # of directories with many files
            if name.startswith(prefix):
                with suppress(OSError):
                    _sweep(parent / name)


def _make(parent: Path, prefix: str) -> tuple[Path, int]:
    while True:
        place = parent / f"{prefix}{os.urandom(RANDOM_BYTES).hex()}"
        _ours[place] = os.getpid()
        try:
            place.mkdir(mode=0o700)
        except OSError as error:
            del _ours[place]
            if isinstance(error, FileExistsError):
                continue
            raise
        try:
            lock = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # another process has swept it, between this line and the one before
            del _ours[place]
            continue
        with suppress(OSError):  # without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_same(place / LOCK, lock):
            return place, lock
        os.close(lock)


def _sweep(place: Path) -> None:
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    try:
        lock = os.open(place / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        place.rmdir()  # its owner was killed, or makes another one
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # it is held, or there are no locks
        os.close(lock)
        return
    _remove(place, lock)


def _remove(place: Path, lock: int) -> None:
    """Remove a directory whose lock is held: the content first, so that what is left by a kill is swept later."""
    try:
        shutil.rmtree(place / CONTENT, ignore_errors=True)
        with suppress(OSError):
            (place / LOCK).unlink()
    finally:
        os.close(lock)
    with suppress(OSError):
        place.rmdir()
    _ours.pop(place, None)


def remove_ours() -> None:
    """Remove what is left of this process's directories where a signal came just as one was made or removed."""
    for place, process in list(_ours.items()):
        if process == os.getpid():
            shutil.rmtree(place, ignore_errors=True)


atexit.register(remove_ours)


def _is_same(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False
