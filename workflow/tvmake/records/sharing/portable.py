"""The file format of exports and of shared stores.

A gzip file of lines (:mod:`tvmake.records.line`), of which the first names the format. A context is defined before its
records. Each line has its own sha256, so the intact lines of a damaged or truncated file can be used.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from tvmake.errors import InputError
from tvmake.records.line import LINE_BYTES, BadLine, Line, decode

FORMAT = "tvmake-records"
VERSION = 1
HEADER_BYTES = 1000
"""Maximum length of the first line."""

LEVEL = 6
"""gzip's default: records shrink to about a tenth."""

MOST_RATIO = 200
"""Records compress to about a tenth. A file with a higher ratio than this is an attack on the disk or on time."""

FREE_BYTES = 64 << 20
"""Files that unpack to less are not checked for their ratio."""

MOST_BAD_LINES = 100_000
"""The rest of a file with more bad lines is not read."""

NumberedLine = tuple[int, bytes, Line | BadLine]


def write(stream: IO[bytes], lines: Iterable[bytes]) -> int:
    """Write lines (with their breaks) to ``stream``; returns their number. Equal lines give equal bytes."""
    count = 0
    with gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=LEVEL, mtime=0) as packed:
        packed.write(json.dumps({"format": FORMAT, "version": VERSION}).encode() + b"\n")
        for line in lines:
            packed.write(line)
            count += 1
    return count


def read(stream: IO[bytes], where: str) -> Iterator[NumberedLine]:
    """Each line's number, bytes and decoded value or error. Holds one line in memory at a time, whatever the file claims.

    Raises:
        InputError: not a file of records, or another version.
    """
    allowed = max(FREE_BYTES, MOST_RATIO * stream.seek(0, os.SEEK_END))
    stream.seek(0)
    with gzip.GzipFile(fileobj=stream, mode="rb") as packed:
        _check_header(packed, where)
        number, bad = 1, 0
        while True:
            number += 1
            if packed.tell() > allowed or bad > MOST_BAD_LINES:
                yield number + 1, b"", BadLine("the file unpacks to far more than records do; the rest was not read")
                return
            try:
                raw = packed.readline(LINE_BYTES + 1)
                if len(raw) > LINE_BYTES and not raw.endswith(b"\n"):
                    _skip_to_break(packed, allowed)
            except (OSError, EOFError, zlib.error) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # an error of the disk, not of the file
                yield number, b"", BadLine("the file is damaged or truncated from here on")
                return
            if not raw:
                return
            raw = raw.removesuffix(b"\n")
            try:
                yield number, raw, decode(raw, thoroughly=True)
            except BadLine as error:
                bad += 1
                yield number, raw, error


def is_records(file: Path) -> bool:
    """Whether a file has the format of exported records; it may be damaged or of another version."""
    try:
        with gzip.open(file, "rb") as packed:
            return bool(json.loads(packed.readline(HEADER_BYTES))["format"] == FORMAT)
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, RecursionError):
        return False


def _check_header(packed: gzip.GzipFile, where: str) -> None:
    try:
        header = json.loads(packed.readline(HEADER_BYTES))
        name, version = header["format"], header["version"]
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError, KeyError, TypeError, RecursionError):
        name = version = None
    if name != FORMAT:
        raise InputError(where, "is not a file of records", "write one with `tvmake records export`")
    if version != VERSION:
        raise InputError(
            where, f"has version {json.dumps(version)[:20]}, expected {VERSION}", "use the tvmake that wrote it"
        )


def _skip_to_break(packed: gzip.GzipFile, allowed: int) -> None:
    while packed.tell() <= allowed and (part := packed.readline(1 << 20)) and not part.endswith(b"\n"):
        pass
