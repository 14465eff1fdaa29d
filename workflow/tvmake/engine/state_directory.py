"""A project's ``.snakemake``: state files and locks of tvmake and Snakemake.

A run refuses entries that are neither files nor directories: reading a pipe would block, and through a link a run would write
and delete files at the link's target. ``.snakemake`` itself may be a link.
"""

from collections.abc import Callable
from pathlib import Path

from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.state_file import not_a_note, read_note

STATE = SNAKEMAKE_STATE
MARK = STATE / "tvmake.pid"
"""Exists while a ``tvmake make`` is running."""
LOCK = STATE / "tvmake.lock"
LOCKS = STATE / "locks"
"""Snakemake's locks on the files of a run."""

DIRECTORIES = (
    "auxiliary", "incomplete", "iocache", "locks", "log", "metadata", "shadow", "tvmake-jobs",
)  # fmt: skip

ALSO_ELSEWHERE = ("conda", "conda-archive", "singularity")
"""Directories of jobs' environments, which may be links."""


def check_state_dir() -> None:
    """Refuse entries that are not directories or files as expected.

    Raises:
        MachineError: an entry has the wrong type.
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
    """The process in the mark of a run; None if there is none."""
    try:
        process = int(read_note(MARK))
    except ValueError:
        return None
    return process if process > 0 else None
