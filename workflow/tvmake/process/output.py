"""What a process prints: text from files of others shows what a terminal would obey, and does not make it obey.

Escape sequences and control characters in a summary, a manifest or an error could hide lines, forge others or set a terminal's title.
"""

import ctypes
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from tvmake.errors import MachineError

OBEYED = "\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""Control characters besides tabs and ends of lines, characters that turn the direction of writing, and halves of characters."""

_outputs: list["_Output"] = []
"""Kept, because a stream that is forgotten closes the file below it."""

_IN_TEXT = re.compile(f"[{OBEYED}]")
_IN_LINE = re.compile(f"[{OBEYED}\t\n]")


def printable(text: str) -> str:
    """One line of text, with what a terminal would obey written as an escape, as in Python's texts."""
    return _IN_LINE.sub(_escape, text)


def argument(path: object) -> str:
    """A path as it is typed in a shell: quoted where it has to be, and never taken for an option."""
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 variant``, ``3 variants``; a plural that is not the noun with an s is given."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


class _Output(io.TextIOWrapper):
    """A standard stream that writes text as :func:`printable`, by lines."""

    def __init__(self, stream: io.TextIOWrapper):
        stream.flush()
        super().__init__(
            stream.buffer,
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self.rich_proxied_file = stream
        """Where rich's consoles write, which have sequences of their own to write (see ``report.console``)."""

    def write(self, text: str) -> int:
        super().write(_IN_TEXT.sub(_escape, text))
        self.flush()  # what rich writes to the stream below comes after
        return len(text)


def refusal() -> MachineError | None:
    """What the system refuses a process whatever it does: its directory, or its output, of which the rest is forgotten then."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return MachineError("", "the directory that this runs in is deleted", "change to another one, as with `cd ~`")
    try:
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), b"\n")  # of what was refused nothing may be left to flush
    except OSError as error:
        with Path(os.devnull).open("w") as nothing:  # the interpreter's last flush would fail once more
            os.dup2(nothing.fileno(), sys.stdout.fileno())
        return MachineError("", f"cannot write to standard output: {error.strerror}")
    return None


@contextmanager
def escaped_output() -> Iterator[None]:
    """Have what is printed inside this block hold nothing that a terminal obeys; rich's consoles write as they do."""
    before = sys.stdout, sys.stderr
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, _Output):
            stream.reconfigure(errors="backslashreplace")  # as an ASCII terminal's, for what rich writes there
            _outputs.append(_Output(stream))
            setattr(sys, name, _outputs[-1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def muted() -> Iterator[None]:
    """Without what libraries that are not written in Python print inside this block, as LLVM and TVM do of what they doubt."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in kept:
            os.dup2(nothing, number)
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(nothing)


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """What is printed inside this block, by a user's code, libraries or child processes too, goes to standard error.

    Standard output is left to what a command gives: one JSON document, say.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what libraries in C have printed waits in a buffer of its own
        os.dup2(kept, 1)
        os.close(kept)
