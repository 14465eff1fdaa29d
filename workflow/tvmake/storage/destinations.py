"""Where a command may write the file that its user names."""

import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tvmake.errors import InputError
from tvmake.storage.files import beside, writing
from tvmake.storage.notes.job_records import has_job_records, record_of


def check_destination(file: Path, kind: str, is_one: Callable[[Path], bool] | None = None) -> None:
    """Refuse, before the work, a place where a file cannot be written, and one where a file of another kind would be lost.

    Args:
        kind: what is to be written, in a word.
        is_one: whether a file that is there is of this kind; without it, whatever is there is replaced.

    Raises:
        InputError: there is no such directory, something else than a file of this kind, or what a run has made.
        MachineError: nothing can be written there.
    """
    with writing(file):
        if file.is_dir():
            raise InputError(str(file), "is a directory", f"name a file in it for the {kind}")
        if not file.parent.is_dir():
            raise InputError(str(file), f"there is no directory '{file.parent}'", "make it first")
        is_kept = is_one and file.exists() and not (file.is_file() and (not file.stat().st_size or is_one(file)))
        if is_kept:
            raise InputError(str(file), f"is there already, and is no {kind}", "name another file")
        if (project := _project_of(file)) is not None:
            run = "" if project == Path.cwd() else f" -d {shlex.quote(str(project))}"
            problem = "is a result of a run, which goes by what its own jobs leave there"
            raise InputError(str(file), problem, f"name another file; `tvmake make{run}` makes this one")
        with beside(file):
            pass


def _project_of(file: Path) -> Path | None:
    """The directory of the run whose job makes a file, or the directory that it lies in; None where none does."""
    with suppress(OSError):  # of a directory above it that may not be read
        place = file.parent.resolve() / file.name
        for project in filter(has_job_records, place.parents):
            made = [path for path in (place, *place.parents) if project in path.parents]
            if any(record_of([name], project) for path in made for name in (str(path.relative_to(project)), str(path))):
                return project
    return None
