"""Texts that are not UTF-8: what they are, and how to make them so."""

from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from pathlib import Path

BEGIN = 8
"""Characters that an encoding is told by."""


def encoding_of(content: bytes) -> str:
    """The encoding of a text that is no UTF-8, by its mark or its zeros, as iconv calls it; empty where it is another one."""
    marks = {BOM_UTF32_LE: "UTF-32", BOM_UTF32_BE: "UTF-32", BOM_UTF16_LE: "UTF-16", BOM_UTF16_BE: "UTF-16"}
    if mark := next((mark for mark in marks if content.startswith(mark)), None):
        return marks[mark]
    begin = content[: 4 * BEGIN]
    zeros = "".join("0" if 8 * begin[place::4].count(0) > len(begin) else "x" for place in range(4))
    return {"x000": "UTF-32LE", "000x": "UTF-32BE", "x0x0": "UTF-16LE", "0x0x": "UTF-16BE"}.get(zeros, "")


def described(content: bytes) -> str:
    """What a text is that is no UTF-8."""
    return f"{encoding_of(content) or 'not UTF-8'} text"


def as_utf8(path: Path, content: bytes) -> str:
    """What to do about such a text in a file."""
    encoding = encoding_of(content) or "LATIN1"
    return f"save it as UTF-8: iconv -f {encoding} -t UTF-8 {path.name} > new{path.suffix}"
