"""Parse the output file of a command."""

from pathlib import Path

from tvmake.errors import InputError


def output_file(typed: str) -> Path:
    """Parse a file name to write. Directory names are refused: ``Path`` drops a trailing slash.

    Raises:
        InputError: the text is empty, ``-``, or names a directory.
    """
    text = str(typed)
    if not text:
        raise InputError("''", "is not a file name")
    if text == "-":
        raise InputError(text, "cannot write to standard output", "name a file (./- is a file named -)")
    if text.endswith(("/", "/.", "/..")) or text in (".", ".."):
        raise InputError(text, "is a directory, but a file is required", "name a file in it")
    return Path(text)
