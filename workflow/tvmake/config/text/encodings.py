"""Detect the encoding of text that is not UTF-8."""

from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from pathlib import Path

BEGIN = 8
"""Number of characters that determine an encoding."""


def encoding_of(content: bytes) -> str:
    """Detect UTF-16 or UTF-32 by the byte order mark or the zero bytes.

    Returns iconv's name of the encoding; empty for other encodings.
    """
    marks = {BOM_UTF32_LE: "UTF-32", BOM_UTF32_BE: "UTF-32", BOM_UTF16_LE: "UTF-16", BOM_UTF16_BE: "UTF-16"}
    if mark := next((mark for mark in marks if content.startswith(mark)), None):
        return marks[mark]
    begin = content[: 4 * BEGIN]
    zeros = "".join("0" if 8 * begin[offset::4].count(0) > len(begin) else "x" for offset in range(4))
    return {"x000": "UTF-32LE", "000x": "UTF-32BE", "x0x0": "UTF-16LE", "0x0x": "UTF-16BE"}.get(zeros, "")


def described(content: bytes) -> str:
    """Describe a text that is not UTF-8."""
    return f"{encoding_of(content) or 'not UTF-8'} text"


def as_utf8(path: Path, content: bytes) -> str:
    """Return the remedy for a file that is not UTF-8."""
    encoding = encoding_of(content) or "LATIN1"
    return f"save it as UTF-8: iconv -f {encoding} -t UTF-8 {path.name} > new{path.suffix}"
