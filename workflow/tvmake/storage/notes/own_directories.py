"""Which directories of a project were made by tvmake, so that what lies in them can be told from a user's files.

A directory that was there before, and held something, is a user's: only what jobs recorded is tvmake's there. So is one outside the
project, which others may use as well.
"""

import os
from pathlib import Path

from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.files import writing
from tvmake.storage.notes.state_file import read_state, write_state

NOTE = SNAKEMAKE_STATE / "tvmake-directories.json"
FORM = 1


def make_own(directory: str) -> None:
    """Make a directory of the project, and note that it is tvmake's, unless it is there and not empty.

    Raises:
        MachineError: it cannot be made.
    """
    place = Path(directory)
    if not _is_inside(place) or (place.exists() and (not place.is_dir() or any(place.iterdir()))):
        return
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
        write_state(NOTE, FORM, {**_noted(), directory: _identity(place)})


def is_own(directory: str) -> bool:
    """Whether :func:`make_own` made this very directory."""
    place = Path(directory)
    return place.is_dir() and _is_inside(place) and _noted().get(directory) == _identity(place)


def _noted() -> dict[str, list[int]]:
    noted = read_state(NOTE, FORM)
    return noted if isinstance(noted, dict) else {}


def _is_inside(place: Path) -> bool:
    here = Path.cwd().resolve()
    there = place.resolve()
    return there != here and there.is_relative_to(here)


def _identity(place: Path) -> list[int]:
    """What another directory of the same name does not share."""
    state = os.stat(place)  # noqa: PTH116
    return [state.st_dev, state.st_ino]
