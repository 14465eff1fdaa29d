"""Directories of a project that tvmake created, to distinguish its files from the user's.

A directory that existed with content belongs to the user: only the outputs of recorded jobs in it are tvmake's. The same
holds outside the project.
"""

import os
from pathlib import Path

from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.files import writing
from tvmake.storage.notes.state_file import read_state, write_state

NOTE = SNAKEMAKE_STATE / "tvmake-directories.json"
FORM = 1


def create_own_directory(directory: str) -> None:
    """Create a directory of the project and note it as tvmake's, unless it exists and is not empty.

    Raises:
        MachineError: it cannot be created.
    """
    path = Path(directory)
    if not _is_inside(path) or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        return
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        write_state(NOTE, FORM, {**_read(), directory: _identity(path)})


def is_own(directory: str) -> bool:
    """Whether :func:`create_own_directory` created this directory."""
    path = Path(directory)
    return path.is_dir() and _is_inside(path) and _read().get(directory) == _identity(path)


def _read() -> dict[str, list[int]]:
    noted = read_state(NOTE, FORM)
    return noted if isinstance(noted, dict) else {}


def _is_inside(path: Path) -> bool:
    here = Path.cwd().resolve()
    resolved = path.resolve()
    return resolved != here and resolved.is_relative_to(here)


def _identity(path: Path) -> list[int]:
    """What distinguishes a directory from another of the same name."""
    state = os.stat(path)  # noqa: PTH116
    return [state.st_dev, state.st_ino]
