"""Checks of the files that a command's user names as outputs."""

import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tvmake.errors import InputError
from tvmake.storage.files import beside, writing
from tvmake.storage.notes.job_records import has_job_records, record_of


def check_destination(file: Path, kind: str, is_one: Callable[[Path], bool] | None = None) -> None:
    """Refuse an output path before the work starts: one that cannot be written, or that would replace a file of another kind.

    Args:
        kind: the kind of file, in a word.
        is_one: whether an existing file has this kind; without it, any file is replaced.

    Raises:
        InputError: the directory does not exist, the file has another kind, or the file is a result of a run.
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
        if (project := _project_of(file)) is not None:
            run = "" if project == Path.cwd() else f" -d {shlex.quote(str(project))}"
            problem = "is a result of a run, and may only be written by its job"
            raise InputError(str(file), problem, f"name another file; `tvmake make{run}` writes this one")
        with beside(file):
            pass


def _project_of(file: Path) -> Path | None:
    """The project whose job writes a file or a directory above it; None without such a project."""
    with suppress(OSError):  # a parent directory may be unreadable
        resolved = file.parent.resolve() / file.name
        for project in filter(has_job_records, resolved.parents):
            candidates = [path for path in (resolved, *resolved.parents) if project in path.parents]
            if any(
                record_of([name], project)
                for path in candidates
                for name in (str(path.relative_to(project)), str(path))
            ):
                return project
    return None
