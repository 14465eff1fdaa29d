"""Temporary directories; those of killed processes are removed when the next directory is created beside them.

The owner of a directory holds a kernel lock on a file in it. Process numbers and host names would not do, because containers
share both. On file systems without locks, directories of killed processes stay.
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
"""Random bytes in a name."""

LONGEST_KEPT_S = 7 * 24 * 3600.0
"""The maximum age of the directory of an interrupted job, in seconds."""

_ours: dict[Path, int] = {}
"""The directories that this process owns, with its process number, which distinguishes it from a fork."""


@contextmanager
def locked_directory(parent: Path, prefix: str) -> Iterator[Path]:
    """Yield an empty directory in ``parent``, which must exist; directories of this prefix without an owner are removed.

    Args:
        prefix: the prefix of the name, used for no other files there.

    Raises:
        OSError: it cannot be created.
    """
    sweep(parent, prefix)
    directory, lock = _make(parent, prefix)
    try:
        content = directory / CONTENT
        content.mkdir(mode=0o700)
        yield content
    finally:
        _remove(directory, lock)


@contextmanager
def temporary_directory(prefix: str) -> Iterator[Path]:
    """Like :func:`locked_directory`, in the system's directory for temporary files.

    Raises:
        MachineError: the disk is full, or a file exceeds this process's limit on file sizes.
        OSError: the directory cannot be created.
    """
    parent = Path(tempfile.gettempdir())
    try:
        with locked_directory(parent, prefix) as directory:
            yield directory
    except OSError as error:
        if refused := temporary_file_refused(error, parent):
            raise refused from error
        raise


@contextmanager
def resumable_directory(parent: Path, name: str) -> Iterator[Path]:
    """Yield a directory for work that may be interrupted. It has the files of an earlier block of this name that did not
    complete, and is removed when the block ends without an error.

    Directories older than :data:`LONGEST_KEPT_S` are removed. While another process does the same work, or if ``parent`` cannot be
    written or has no locks, the directory is an empty temporary one (:func:`temporary_directory`).

    Args:
        parent: a directory for such directories only; it need not exist.
    """
    _sweep_old(parent)
    lock = _acquire(parent / name)
    if lock is None:
        with temporary_directory(f"tvmake-{parent.name}-") as directory:
            yield directory
        return
    try:
        yield parent / name / CONTENT
    except BaseException:
        os.close(lock)
        raise
    _remove(parent / name, lock)


def _acquire(directory: Path) -> int | None:
    """Create a directory if necessary, and lock it; None if it is locked, or cannot be."""
    lock = None
    try:
        (directory / CONTENT).mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_same(directory / LOCK, lock) and (directory / CONTENT).is_dir():
            os.utime(directory)
            return lock
    except OSError:
        pass
    if lock is not None:
        os.close(lock)
    return None


def _sweep_old(parent: Path) -> None:
    with suppress(OSError):
        for directory in list(parent.iterdir()):
            with suppress(OSError):
                if time.time() - directory.stat().st_mtime > LONGEST_KEPT_S:
                    _sweep(directory)


def sweep(parent: Path, prefix: str) -> None:
    """Remove the directories of this prefix that belong to this user and have no owner process."""
    with suppress(OSError):
        for name in os.listdir(parent):  # noqa: PTH208  # of directories with many files
            if name.startswith(prefix):
                with suppress(OSError):
                    _sweep(parent / name)


def _make(parent: Path, prefix: str) -> tuple[Path, int]:
    while True:
        directory = parent / f"{prefix}{os.urandom(RANDOM_BYTES).hex()}"
        _ours[directory] = os.getpid()
        try:
            directory.mkdir(mode=0o700)
        except OSError as error:
            del _ours[directory]
            if isinstance(error, FileExistsError):
                continue
            raise
        try:
            lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # another process removed it between this line and the one before
            del _ours[directory]
            continue
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_same(directory / LOCK, lock):
            return directory, lock
        os.close(lock)


def _sweep(directory: Path) -> None:
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return
    try:
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        directory.rmdir()  # its owner was killed, or creates another directory
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # it is locked, or there are no locks
        os.close(lock)
        return
    _remove(directory, lock)


def _remove(directory: Path, lock: int) -> None:
    """Remove a directory of which this process holds the lock: the content first, so that a killed removal is completed later."""
    try:
        shutil.rmtree(directory / CONTENT, ignore_errors=True)
        with suppress(OSError):
            (directory / LOCK).unlink()
    finally:
        os.close(lock)
    with suppress(OSError):
        directory.rmdir()
    _ours.pop(directory, None)


def remove_own_directories() -> None:
    """Remove this process's remaining directories; a signal may come just as one is created or removed."""
    for directory, process in list(_ours.items()):
        if process == os.getpid():
            shutil.rmtree(directory, ignore_errors=True)


atexit.register(remove_own_directories)


def _is_same(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except OSError:
        return False
