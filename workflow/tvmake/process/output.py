"""Print text from outside with control characters escaped, so that a terminal does not interpret them.

Escape sequences in a summary, a manifest or an error could hide lines, forge lines or set the terminal's title.
"""

import ctypes
import io
import os
import re
import shlex
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from tvmake.errors import MachineError

CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""Control characters other than tabs and line ends, characters that change the writing direction, and lone surrogates."""

_outputs: list["_Output"] = []
"""References to replaced streams: collecting a stream closes its file."""

_IN_TEXT = re.compile(f"[{CONTROLS}]")
_IN_LINE = re.compile(f"[{CONTROLS}\t\n]")


def printable(text: str) -> str:
    """One line of text, with control characters as Python escapes."""
    return _IN_LINE.sub(_escape, text)


def argument(path: object) -> str:
    """A path as typed in a shell: quoted if necessary, and never an option."""
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 variant``, ``3 variants``; ``plural`` is for nouns without a regular plural."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def drop_accents(text: str) -> str:
    """The text with plain letters in place of those with accents (``modèle`` → ``modele``)."""
    return "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


class _Output(io.TextIOWrapper):
    """A standard stream that writes text as :func:`printable`, line by line."""

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
        """The raw stream for rich's consoles, which write their own escape sequences (see ``report.console``)."""

    def write(self, text: str) -> int:
        super().write(_IN_TEXT.sub(_escape, text))
        self.flush()  # rich writes to the stream below
        return len(text)


def refusal() -> MachineError | None:
    """An environment that fails every command: a deleted working directory, or closed output; the rest of the output is dropped."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return MachineError("", "the working directory was deleted", "change to another one, as with `cd ~`")
    try:
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), b"\n")  # nothing of the failed output may be left to flush
    except OSError as error:
        with Path(os.devnull).open("w") as nothing:  # the interpreter's last flush would fail again
            os.dup2(nothing.fileno(), sys.stdout.fileno())
        return MachineError("", f"cannot write to standard output: {error.strerror}")
    return None


@contextmanager
def escape_output() -> Iterator[None]:
    """Escape control characters in all output of this block; rich's consoles are exempt."""
    before = sys.stdout, sys.stderr
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, _Output):
            stream.reconfigure(errors="backslashreplace")  # rich writes there; an ASCII terminal would fail
            _outputs.append(_Output(stream))
            setattr(sys, name, _outputs[-1])
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def mute_libraries() -> Iterator[None]:
    """Discard output of native libraries inside this block, such as warnings of LLVM and TVM."""
    sys.stdout.flush()
    sys.stderr.flush()
    copies = {number: os.dup(number) for number in (1, 2)}
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in copies:
            os.dup2(nothing, number)
        yield
    finally:
        for number, copy in copies.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(nothing)


@contextmanager
def redirect_stdout_to_stderr() -> Iterator[None]:
    """Redirect all output of this block, also of user code, libraries and child processes, to standard error.

    Standard output then has only the command's result, such as one JSON document.
    """
    sys.stdout.flush()
    stdout_copy = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        ctypes.CDLL(None).fflush(None)  # C libraries buffer their output
        os.dup2(stdout_copy, 1)
        os.close(stdout_copy)
