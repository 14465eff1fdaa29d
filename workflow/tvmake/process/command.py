"""Run tvmake's commands as child processes, and raise their errors here."""

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tvmake.errors import ErrorList, InputError, MachineError, TvmakeError, UsageError
from tvmake.process.python import python_command
from tvmake.process.stopping import postpone_stops

KINDS: dict[int, type[TvmakeError]] = {2: UsageError, 3: MachineError}
"""Error classes by exit code; other codes are errors of the input."""

_ERROR = re.compile(r"^( *)error: (.*)$")

LAST_LINES = 5

MAIN = "from tvmake.cli import main; main()"


def run_tvmake(arguments: Sequence[str], directory: Path | None = None, *, shows_progress: bool = True) -> str:
    """Run a tvmake command as a child process.

    Args:
        arguments: the command line after ``tvmake``.
        directory: its working directory; default: this process's.
        shows_progress: pass its standard error on, line by line.

    Returns:
        Its standard output.

    An interrupt ends it with all its children.

    Raises:
        TvmakeError: it failed. The class follows from its exit code; an :class:`ErrorList` if it reported several errors.
    """
    lines: list[str] = []
    # Standard output goes to a file: nobody reads a pipe before the end, so a full one would block the command.
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        process = None
        try:
            with postpone_stops():
                process = subprocess.Popen(
                    python_command("-c", MAIN, *arguments),
                    cwd=directory,
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                )
            assert process.stderr is not None
            for line in process.stderr:
                lines.append(line.rstrip("\n"))
                if shows_progress:
                    sys.stderr.write(line)
            code = process.wait()
        finally:
            if process is not None and process.poll() is None:
                _interrupt(process.pid)
                process.wait()
        printed.seek(0)
        output = printed.read()
    if code:
        raise _error(lines, code, arguments)
    return output


def _interrupt(command: int) -> None:
    """Interrupt a command and all its children as Ctrl-C in a terminal does, so that it does not wait for its jobs."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(command)
        process.send_signal(signal.SIGINT)  # first, so that it starts no more children
        for child in process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.send_signal(signal.SIGINT)


def errors_in(lines: Sequence[str], kind: type[TvmakeError]) -> list[TvmakeError]:
    """Parse printed errors: ``error: where: problem``, with the remedy indented below."""
    errors: list[TvmakeError] = []
    for number, line in enumerate(lines):
        if (match := _ERROR.match(line)) is None:
            continue
        margin = match[1] + "  "
        remedy = []
        for following in lines[number + 1 :]:
            if not following.startswith(margin) or _ERROR.match(following):
                break
            remedy.append(following.strip())
        where, colon, problem = match[2].partition(": ")
        errors.append(kind(where if colon else "", problem if colon else where, " ".join(remedy) or None))
    return errors


def _error(lines: Sequence[str], code: int, arguments: Sequence[str]) -> TvmakeError:
    kind = KINDS.get(code, InputError)
    # Several jobs may fail for one reason, such as the import of a model and its reference.
    errors = list({str(error): error for error in errors_in(lines, kind)}.values())
    if not errors:
        last = " ".join(line.strip() for line in lines[-LAST_LINES:]) or "no output"
        return kind(f"tvmake {arguments[0]}", f"ended with exit code {code}: {last}")
    return errors[0] if len(errors) == 1 else ErrorList(errors)
