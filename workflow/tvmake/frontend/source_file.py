"""Open a model's file; report in one line why it cannot be opened."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tvmake.errors import InputError
from tvmake.frontend.file_kinds import ARCHIVES, DAMAGES, HEAD_BYTES, archive_kind, recognise_file
from tvmake.frontend.options import EXPORT
from tvmake.storage.permissions import unreadable_error
from tvmake.storage.plain_files import open_plain

COPY = "copy or download the file again"
"""The remedy for most damaged files."""


@contextmanager
def open_source(source: Path, suffix: str, empty_remedy: str) -> Iterator[BinaryIO]:
    """The file, open for reading.

    Args:
        suffix: of files of this format, for messages.
        empty_remedy: the remedy for an empty file.

    Raises:
        InputError: it is missing, a directory, empty, of another kind, or cannot be read.
    """
    where = str(source)
    if source.is_dir():
        raise InputError(where, "is a directory", f"name the {suffix} file in it")
    try:
        with open_plain(source) as file:
            if not os.fstat(file.fileno()).st_size:
                raise InputError(where, "is empty", empty_remedy)
            head = file.read(HEAD_BYTES)
            file.seek(0)
            if recognised := recognise_file(source, head, suffix):
                kind, remedy = recognised
                raise InputError(where, f"is {kind}", remedy)
            yield file
    except FileNotFoundError as error:
        raise InputError(
            where, "no such file", "check the path; relative ones start at the working directory"
        ) from error
    except OSError as error:
        raise unreadable_error(source, error, where=where) from error


def check_torchscript(source: Path) -> None:
    """Refuse a file that is not a TorchScript archive, by the names of its members, without loading it.

    Raises:
        InputError: as :func:`open_source`; it is another kind of archive, or damaged.
    """
    where = str(source)
    with open_source(source, ".pt", COPY) as file:
        try:
            kind = archive_kind(file)
        except DAMAGES as error:
            raise InputError(where, "is not a TorchScript archive, or a damaged one", EXPORT) from error
    if kind != "torchscript":
        what, remedy = ARCHIVES[kind]
        raise InputError(where, f"is {what}", remedy)
