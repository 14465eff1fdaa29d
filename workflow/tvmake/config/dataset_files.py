"""Which files a dataset consists of."""

import csv
import os
from pathlib import Path
from typing import NamedTuple

from tvmake.config.dataset import DatasetConfig
from tvmake.config.text.encodings import as_utf8, described
from tvmake.errors import InputError
from tvmake.storage.plain_files import read_plain

LIST_SUFFIXES = (".csv", ".tsv")
"""Of lists of files, in lower case."""

MOST_LIST_BYTES = 256 << 20
"""A list of files is read as a whole."""


class Line(NamedTuple):
    """A line of a list of files that is not empty."""

    number: int
    """From 1."""
    cells: list[str]


def dataset_files(dataset: DatasetConfig | None) -> list[str]:
    """The files a dataset consists of: the array or list itself, and every image it names.

    Raises:
        InputError: it is a list that cannot be read.
    """
    if dataset is None:
        return []
    path = Path(dataset.path)
    files = [str(path)]
    if path.is_dir():
        files = sorted(str(file) for file in path.rglob("*") if file.is_file())
    elif path.suffix.lower() in LIST_SUFFIXES and path.is_file():
        # The header, if there is one, names no file.
        named = {path.parent / line.cells[0] for line in listed(path) if line.cells[0]}
        files += sorted(str(file) for file in named if os.path.isfile(file))  # noqa: PTH113  # also of names that cannot be
    if isinstance(dataset.label_names, str):
        files.append(dataset.label_names)
    return files


def listed(path: Path) -> list[Line]:
    """The lines of a list of files, its header included.

    Raises:
        InputError: it cannot be read.
    """
    try:
        content = read_plain(path, MOST_LIST_BYTES, "list of files")
    except FileNotFoundError:
        raise InputError(str(path), "no such file", "correct the path of the list") from None
    try:
        rows = csv.reader(content.decode("utf-8-sig").splitlines(), delimiter=separator(path))
        lines = [Line(number, [cell.strip() for cell in cells]) for number, cells in enumerate(rows, 1)]
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}:{line}", f"cannot be read: it is {described(content)}", as_utf8(path, content)
        ) from None
    except csv.Error as error:
        raise InputError(
            str(path), f"is no list of files: {error}", f"write one `file{separator(path)}label` a line"
        ) from None
    return [line for line in lines if any(line.cells)]


def separator(path: Path) -> str:
    """What stands between the cells of a list."""
    return "\t" if path.suffix.lower() == ".tsv" else ","
