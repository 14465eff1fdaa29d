"""The operating system's refusals, in a store's terms."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvmake.errors import MachineError
from tvmake.storage.files import CHOOSE_ANOTHER, writing

_CHOOSE = "make it accessible, or choose another directory (`tuning.store` in the config, `--store` here)"


@contextmanager
def saving(path: Path) -> Iterator[None]:
    """Turn any failure to write ``path`` into one clear line.

    Raises:
        MachineError: no space, no permission, a read-only or failing file system.
    """
    try:
        with writing(path):
            yield
    except OSError as error:
        raise MachineError(str(path), f"cannot be written ({os.strerror(error.errno or 0)})", _CHOOSE) from error
    except MachineError as error:
        if error.remedy == CHOOSE_ANOTHER:
            raise MachineError(error.where, error.problem, _CHOOSE) from error
        raise


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a failure to read ``path`` into one clear line; a missing file stays a FileNotFoundError.

    Raises:
        MachineError: no permission, or a failing disk or network file system.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise MachineError(str(path), f"cannot be read ({error.strerror or error})", _CHOOSE) from error


def sync_directory(directory: Path) -> None:
    """Make new names in a directory survive a power failure."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
