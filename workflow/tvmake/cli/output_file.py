"""The file that a command writes, as it is typed."""

from pathlib import Path

from tvmake.errors import InputError


def output_file(typed: str) -> Path:
    """The path of a file to write, of a text that names no directory: ``Path`` forgets a slash at its end.

    Raises:
        InputError: it ends as the name of a directory does, is empty, or stands for standard output.
    """
    text = str(typed)
    if not text:
        raise InputError("''", "is no name for a file to write")
    if text == "-":
        raise InputError(text, "nothing is written to standard output", "name a file; ./- is one of this name")
    if text.endswith(("/", "/.", "/..")) or text in (".", ".."):
        raise InputError(text, "names a directory, where a file is to be written", "name a file in it")
    return Path(text)
