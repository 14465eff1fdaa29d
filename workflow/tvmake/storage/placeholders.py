"""Recognise files that take the place of the real one: pointers, web pages, compressed files."""

import re

PLACEHOLDERS: tuple[tuple[bytes, str, str], ...] = (
    (rb"version https://git-lfs", "a pointer of Git LFS, not the file itself", "fetch it: git lfs pull"),
    (rb"(?i:<!doctype|<html)", "a web page", "download the file itself"),
    (rb"\x1f\x8b", "compressed with gzip", "decompress it first"),
)
"""The file's first bytes as a regular expression, its description, and the remedy."""


def describe_placeholder(head: bytes) -> tuple[str, str] | None:
    """The description of a placeholder that begins with ``head``, and its remedy; None for other files."""
    return next(((what, remedy) for sign, what, remedy in PLACEHOLDERS if re.match(sign, head)), None)
