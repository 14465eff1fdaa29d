"""What lies in the place of a file that was not fetched, or not unpacked."""

STAND_INS: tuple[tuple[bytes, str, str], ...] = (
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself", "fetch it: git lfs pull"),
    (b"<!DOCTYPE", "a web page", "download the file itself"),
    (b"<html", "a web page", "download the file itself"),
    (b"\x1f\x8b", "compressed with gzip", "decompress it first"),
)
"""How such a file begins, what it is, and what to do."""


def stand_in(head: bytes) -> tuple[str, str] | None:
    """What a file is that begins so, and what to do, where it stands for another one."""
    return next(((what, remedy) for sign, what, remedy in STAND_INS if head.startswith(sign)), None)
