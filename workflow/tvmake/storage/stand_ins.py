"""What lies in the place of a file that was not fetched, or not unpacked."""

import re

STAND_INS: tuple[tuple[bytes, str, str], ...] = (
    (rb"version https://git-lfs", "a pointer of Git LFS, not the file itself", "fetch it: git lfs pull"),
    (rb"(?i:<!doctype|<html)", "a web page", "download the file itself"),
    (rb"\x1f\x8b", "compressed with gzip", "decompress it first"),
)
"""How such a file begins, as a regular expression; what it is, and what to do."""


def stand_in(head: bytes) -> tuple[str, str] | None:
    """What a file is that begins so, and what to do, where it stands for another one."""
    return next(((what, remedy) for sign, what, remedy in STAND_INS if re.match(sign, head)), None)
