"""A project's ``.snakemake``: notes and locks of tvmake and Snakemake.

A run refuses entries in it that are neither files nor directories: reading a pipe would block, and a link would have a run write,
and delete what it cannot read, at the link's target. ``.snakemake`` itself may be a link.
"""

from collections.abc import Callable
from pathlib import Path

from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.state_file import not_a_note, read_note

STATE = SNAKEMAKE_STATE
MARK = STATE / "tvmake.pid"
"""There while a ``tvmake make`` is running."""
LOCK = STATE / "tvmake.lock"
LOCKS = STATE / "locks"
"""Snakemake's, of the files of a run."""

DIRECTORIES = (
    "auxiliary", "incomplete", "iocache", "locks", "log", "metadata", "shadow", "tvmake-jobs",
)  # fmt: skip

ALSO_ELSEWHERE = ("conda", "conda-archive", "singularity")
"""Directories of what jobs are run in, which may be links."""


def check_state_dir() -> None:
    """Refuse what is no directory in a directory's place, and no file in a lock's.

    Raises:
        MachineError: there is such an entry.
    """

    def check(path: Path, is_right: Callable[[Path], bool], may_be_link: bool = False) -> None:
        is_link = path.is_symlink() and not may_be_link
        if is_link or ((path.exists() or path.is_symlink()) and not is_right(path)):
            raise not_a_note(path)

    for name in DIRECTORIES:
        check(STATE / name, Path.is_dir)
    for name in ALSO_ELSEWHERE:
        check(STATE / name, Path.is_dir, may_be_link=True)
    for path in (LOCK, MARK, *LOCKS.glob("*")):
        check(path, Path.is_file)


def running_process() -> int | None:
    """The process that the mark of a run names; None where there is none."""
    try:
        process = int(read_note(MARK))
    except ValueError:
        return None
    return process if process > 0 else None
