"""Checks of the files that a command's user names as outputs."""

from collections.abc import Callable
from pathlib import Path

from tvmake.errors import InputError
from tvmake.storage.files import directory_beside, writing


def check_destination(file: Path, kind: str, is_one: Callable[[Path], bool] | None = None) -> None:
    """Refuse an output path before the work starts: one that cannot be written, or that would replace a file of another kind.

    Args:
        kind: the kind of file, in a word.
        is_one: whether an existing file has this kind; without it, any file is replaced.

    Raises:
        InputError: the directory does not exist, or the file has another kind.
        MachineError: the file cannot be written.
    """
    with writing(file):
        if file.is_dir():
            raise InputError(str(file), "is a directory", f"name a file in it for the {kind}")
        if not file.parent.is_dir():
            raise InputError(str(file), f"there is no directory '{file.parent}'", "create it first")
        is_kept = is_one and file.exists() and not (file.is_file() and (not file.stat().st_size or is_one(file)))
        if is_kept:
            raise InputError(str(file), f"exists and is not a {kind}", "name another file")
        with directory_beside(file):
            pass
