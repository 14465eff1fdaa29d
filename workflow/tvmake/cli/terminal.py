"""Output of commands: JSON, consoles, and names of files to write."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

from tvmake.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 400
"""Columns if the output is piped: one line per row."""


def open_console(piped_width: int = PIPED_WIDTH) -> Console:
    """A console on the terminal, or a wide one if the output is piped."""
    from tvmake.report.console import SafeConsole

    return SafeConsole(width=None if sys.stdout.isatty() else piped_width, highlight=False)


SILENCE_S = 2.0
"""How long a command on a terminal works without saying what at."""


@contextmanager
def explain_wait(text: str, after_s: float = SILENCE_S) -> Iterator[None]:
    """Print a note to a terminal if the block takes longer than this."""
    from tvmake.cli.configs import print_note

    if not text or not sys.stderr.isatty():
        yield
        return
    timer = Timer(after_s, print_note, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def print_json(value: Any) -> None:
    """Print a value as JSON for programs. The text is valid in any locale."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
        is_safe = all(line.isprintable() for line in text.split("\n"))
    except UnicodeEncodeError:
        is_safe = False
    print(text if is_safe else json.dumps(value, indent=2))


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
