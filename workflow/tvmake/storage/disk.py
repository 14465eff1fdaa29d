"""Errors of the operating system as messages about a store."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvmake.errors import MachineError
from tvmake.storage.files import writing
from tvmake.storage.permissions import DENIED, how_to_permit

_NAMED = "`tuning.store` in the config, `--store` here"
_CHOOSE = f"make it accessible, or choose another directory ({_NAMED})"


@contextmanager
def saving(path: Path) -> Iterator[None]:
    """Turn a failure to write ``path`` into a message.

    Raises:
        MachineError: no space, no permission, a read-only or failing file system.
    """
    try:
        with writing(path):
            yield
    except OSError as error:
        raise MachineError(str(path), f"cannot be written ({os.strerror(error.errno or 0)})", _CHOOSE) from error
    except MachineError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in DENIED:
            raise MachineError(error.where, error.problem, f"{error.remedy} ({_NAMED})") from error
        raise


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a failure to read ``path`` into a message; a missing file stays a FileNotFoundError.

    Raises:
        MachineError: no permission, or a failing disk or network file system.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        remedy = f"{how_to_permit(path, os.R_OK)} ({_NAMED})" if error.errno in DENIED else _CHOOSE
        raise MachineError(str(path), f"cannot be read ({error.strerror or error})", remedy) from error


def sync_directory(directory: Path) -> None:
    """Make new names in a directory survive a power failure."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def append(path: Path, lines: bytes) -> None:
    """Append complete lines to a file and wait for the disk. An incomplete last line of a killed writer is ended first.

    Raises:
        MachineError: they could not be written; the file is unchanged.
    """
    with saving(path):
        is_new = not path.exists()
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                lines = b"\n" + lines
            try:
                remaining = memoryview(lines)
                while remaining:
                    remaining = remaining[os.write(handle, remaining) :]
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)
        if is_new:
            sync_directory(path.parent)
