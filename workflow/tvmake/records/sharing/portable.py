"""Records as a file of their own: what is exported, and what a shared store is made of.

A gzip file of lines (:mod:`tvmake.records.line`) after a first one that names the format. A place is defined before its
records; each line carries its own sha256, so that of a damaged or cut file everything intact can be used.
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
"""That the first line has at the most."""

LEVEL = 6
"""gzip's own default: records shrink to about a tenth."""

MOST_RATIO = 200
"""Records compress to about a tenth. What claims to shrink this much is made to fill a disk, or to take our time."""

FREE_BYTES = 64 << 20
"""Records that unpack to less are not asked how well they shrank."""

MOST_BAD_LINES = 100_000
"""After so many the rest is not read."""

Numbered = tuple[int, bytes, Line | BadLine]


def write(stream: IO[bytes], lines: Iterable[bytes]) -> int:
    """Write lines (with their breaks) to ``stream``; returns how many. Equal lines give equal bytes."""
    count = 0
    with gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=LEVEL, mtime=0) as packed:
        packed.write(json.dumps({"format": FORMAT, "version": VERSION}).encode() + b"\n")
        for line in lines:
            packed.write(line)
            count += 1
    return count


def read(stream: IO[bytes], where: str) -> Iterator[Numbered]:
    """Each line's number, bytes and what it is. Never holds more than one line, whatever the file claims to be.

    Raises:
        InputError: not a file of records, or one of another version.
    """
    allowed = max(FREE_BYTES, MOST_RATIO * stream.seek(0, os.SEEK_END))
    stream.seek(0)
    with gzip.GzipFile(fileobj=stream, mode="rb") as packed:
        _check_header(packed, where)
        number, bad = 1, 0
        while True:
            number += 1
            if packed.tell() > allowed or bad > MOST_BAD_LINES:
                yield number + 1, b"", BadLine("from here on the file is made to fill disks, or of something else")
                return
            try:
                raw = packed.readline(LINE_BYTES + 1)
                if len(raw) > LINE_BYTES and not raw.endswith(b"\n"):
                    _skip_to_break(packed, allowed)
            except (OSError, EOFError, zlib.error) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # the disk's fault, not the file's
                yield number, b"", BadLine("the file is damaged or cut short from here on")
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
    """Whether a file is one of records, be it damaged or of another version."""
    try:
        with gzip.open(file, "rb") as packed:
            return bool(json.loads(packed.readline(HEADER_BYTES))["format"] == FORMAT)
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, RecursionError):
        return False


def _check_header(packed: gzip.GzipFile, where: str) -> None:
    try:
        header = json.loads(packed.readline(HEADER_BYTES))
        named, version = header["format"], header["version"]
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError, KeyError, TypeError, RecursionError):
        named = version = None
    if named != FORMAT:
        raise InputError(where, "is no file of records", "make one with `tvmake records export`")
    if version != VERSION:
        raise InputError(
            where, f"is of version {json.dumps(version)[:20]}, expected {VERSION}", "use the tvmake that wrote it"
        )


def _skip_to_break(packed: gzip.GzipFile, allowed: int) -> None:
    while packed.tell() <= allowed and (part := packed.readline(1 << 20)) and not part.endswith(b"\n"):
        pass
