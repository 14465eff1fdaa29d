"""Open a model's file, with one clear line when it cannot be."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tvmake.config.files.formats import ARCHIVES, DAMAGES, archive_kind
from tvmake.errors import InputError
from tvmake.storage.permissions import unreadable
from tvmake.storage.plain_files import open_plain
from tvmake.storage.stand_ins import STAND_INS

ZIP = b"PK\x03\x04"

SIGNS: tuple[tuple[int, bytes, tuple[str, ...], str, str], ...] = (
    (4, b"TFL3", (".tflite",), "a TFLite model", "rename it to .tflite, or set `format: tflite`"),
    (0, ZIP, (".pt2", ".keras"), "a damaged zip archive", "copy or download the file again"),
    (0, b"\x89HDF\r\n", (".h5",), "an HDF5 file, as Keras writes them", "set `format: keras`"),
    *((0, sign, (), what, remedy) for sign, what, remedy in STAND_INS),
)
"""How files begin: where, with what, the suffixes of such files, what it is, and what to do where another kind is expected."""

LONGEST_SIGN = 32


@contextmanager
def open_source(source: Path, suffix: str, empty_remedy: str) -> Iterator[BinaryIO]:
    """The file, open for reading.

    Args:
        suffix: of the files of this format, for messages.
        empty_remedy: what to do about an empty file.

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
            head = file.read(LONGEST_SIGN)
            file.seek(0)
            for offset, sign, suffixes, what, remedy in SIGNS:
                if suffix not in suffixes and head[offset:].startswith(sign):
                    if sign == ZIP:
                        with suppress(*DAMAGES):
                            what, remedy = ARCHIVES[archive_kind(source)]
                    raise InputError(where, f"is {what}", remedy)
            yield file
    except FileNotFoundError as error:
        raise InputError(
            where, "no such file", "check the path; relative ones start at the working directory"
        ) from error
    except OSError as error:
        raise unreadable(source, error, where=where) from error
