"""Notes and locks in a project's ``.snakemake``: entries that are neither files nor directories are removed.

Reading a pipe would block, and a link would have a run write, and delete what it cannot read, at the link's target. ``.snakemake``
itself may be a link.
"""

from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.state_file import read_note, remove_note

STATE = SNAKEMAKE_STATE
MARK = STATE / "tvmake.pid"
"""There while a ``tvmake make`` is at work."""
LOCK = STATE / "tvmake.lock"
LOCKS = STATE / "locks"
"""Snakemake's, of the files of a run."""

DIRECTORIES = (
    "auxiliary", "incomplete", "iocache", "locks", "log", "metadata", "shadow", "tvmake-jobs", "tvmake-listings",
)  # fmt: skip

ALSO_ELSEWHERE = ("conda", "conda-archive", "singularity")
"""Directories of what jobs are run in, which may be links."""


def repair_state_dir() -> None:
    """Remove what is no directory in a directory's place, and no file in a lock's.

    Raises:
        OSError: it cannot be removed.
    """
    for place in (STATE / name for name in DIRECTORIES):
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            remove_note(place)
    for place in (STATE / name for name in ALSO_ELSEWHERE):
        if not place.is_dir() and (place.is_symlink() or place.exists()):
            remove_note(place)
    for place in (LOCK, MARK, *LOCKS.glob("*")):
        if place.is_symlink() or (place.exists() and not place.is_file()):
            remove_note(place)


def at_work() -> int | None:
    """The process that the mark of a run names; None where there is none."""
    try:
        process = int(read_note(MARK))
    except ValueError:
        return None
    return process if process > 0 else None
