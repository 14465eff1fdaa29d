"""A note of the packages that were written without a config, and of their sources: another source's package is not replaced silently.

A package does not name its source: two files with one network give the same package.
"""

import os
from pathlib import Path

from tvmake.artifact.package import inspect_any
from tvmake.errors import TvmakeError
from tvmake.storage.notes.state_file import read_state, write_state

FILE = "packages.json"
"""The note's name in the directory of such runs."""

FORM = 1
"""Format version of the note."""


def note_package(directory: Path, package: Path, source: str) -> None:
    """Note the source of a package that was written.

    Args:
        directory: the parent directory of runs.
        source: the model's full path, or ``zoo:<name>``.
    """
    packages = {**_read(directory), str(package.absolute()): [source, inspect_any(package).own_sha256]}
    write_state(directory / FILE, FORM, {name: entry for name, entry in packages.items() if Path(name).exists()})


def replaced_source(directory: Path, package: Path, source: str) -> str | None:
    """The source of a package that one of another source would replace; None for no package, or the same or an unknown source."""
    noted, sha256 = _read(directory).get(str(package.absolute()), (source, ""))
    if noted == source or not package.is_file():
        return None
    try:
        is_noted = inspect_any(package).own_sha256 == sha256
    except TvmakeError:
        return None
    if not is_noted:
        return None
    return os.path.relpath(noted) if Path(noted).is_relative_to(Path.cwd()) else noted


def _read(directory: Path) -> dict[str, list[str]]:
    packages = read_state(directory / FILE, FORM)
    return packages if isinstance(packages, dict) else {}
