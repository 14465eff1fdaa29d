"""List the files of a dataset."""

import csv
import os
from pathlib import Path
from typing import NamedTuple

from tvmake.config.dataset import DatasetConfig
from tvmake.errors import InputError
from tvmake.storage.plain_files import encoding_error, read_plain

LIST_SUFFIXES = (".csv", ".tsv")
"""Suffixes of file lists, in lower case."""

MOST_LIST_BYTES = 256 << 20
"""Largest file list, in bytes; it is read into memory."""


class Line(NamedTuple):
    """A non-empty line of a file list."""

    number: int
    """From 1."""
    cells: list[str]


def dataset_files(dataset: DatasetConfig | None) -> list[str]:
    """Return the files of a dataset: the array or list, and every image it names.

    Raises:
        InputError: the file list cannot be read.
    """
    if dataset is None:
        return []
    path = Path(dataset.path)
    files = [str(path)]
    if path.is_dir():
        files = sorted(str(file) for file in path.rglob("*") if file.is_file())
    elif path.suffix.lower() in LIST_SUFFIXES and path.is_file():
        # A header does not name an existing file.
        candidates = {path.parent / line.cells[0] for line in read_list(path) if line.cells[0]}
        # isfile() also accepts names that no file can have
        files += sorted(str(file) for file in candidates if os.path.isfile(file))  # noqa: PTH113
    if isinstance(dataset.label_names, str):
        files.append(dataset.label_names)
    return files


def read_list(path: Path) -> list[Line]:
    """Return the lines of a file list, its header included.

    Raises:
        InputError: the list cannot be read.
    """
    try:
        content = read_plain(path, MOST_LIST_BYTES, "list of files")
    except FileNotFoundError:
        raise InputError(str(path), "no such file", "correct the path of the list") from None
    try:
        rows = csv.reader(content.decode("utf-8-sig").splitlines(), delimiter=separator(path))
        lines = [Line(number, [cell.strip() for cell in cells]) for number, cells in enumerate(rows, 1)]
    except UnicodeDecodeError as error:
        raise encoding_error(path, error) from None
    except csv.Error as error:
        raise InputError(
            str(path), f"is not a file list: {error}", f"write one `file{separator(path)}label` per line"
        ) from None
    return [line for line in lines if any(line.cells)]


def separator(path: Path) -> str:
    """Return the cell separator of a file list."""
    return "\t" if path.suffix.lower() == ".tsv" else ","
