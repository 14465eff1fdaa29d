"""tvmake's own commands as child processes, whose errors are raised here."""

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

KINDS: dict[int, type[TvmakeError]] = {2: UsageError, 3: MachineError}
"""By exit code; anything else is the input's fault."""

_ERROR = re.compile(r"^( *)error: (.*)$")

LAST_LINES = 5

MAIN = "from tvmake.cli import main; main()"


def run_tvmake(arguments: Sequence[str], directory: Path | None = None, *, shows_progress: bool = True) -> str:
    """Run a command of tvmake in a process of its own.

    Args:
        arguments: as behind ``tvmake``.
        directory: where it runs; here when left out.
        shows_progress: pass on what it prints to standard error, line by line.

    Returns:
        What it printed.

    Interrupted, it is ended with all that it started, before the interrupt goes on.

    Raises:
        TvmakeError: it failed; of the class that its exit code stands for, an :class:`ErrorList` where it named several mistakes.
    """
    lines: list[str] = []
    # What it prints goes to a file: a pipe that nobody reads until it ends would stop it.
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
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
        try:
            for line in process.stderr:
                lines.append(line.rstrip("\n"))
                if shows_progress:
                    sys.stderr.write(line)
            code = process.wait()
        finally:
            if process.poll() is None:
                _interrupt(process.pid)
                process.wait()
        printed.seek(0)
        output = printed.read()
    if code:
        raise _error(lines, code, arguments)
    return output


def _interrupt(command: int) -> None:
    """Do to a command, and to all that it started, what Ctrl-C in a terminal does: it does not wait for the end of its jobs then."""
    with suppress(psutil.NoSuchProcess):
        whole = psutil.Process(command)
        whole.send_signal(signal.SIGINT)  # first, so that it starts no more
        for started in whole.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                started.send_signal(signal.SIGINT)


def errors_in(lines: Sequence[str], kind: type[TvmakeError]) -> list[TvmakeError]:
    """The errors among printed lines: ``error: where: problem``, and the remedy below, further in."""
    found: list[TvmakeError] = []
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
        found.append(kind(where if colon else "", problem if colon else where, " ".join(remedy) or None))
    return found


def _error(lines: Sequence[str], code: int, arguments: Sequence[str]) -> TvmakeError:
    kind = KINDS.get(code, InputError)
    found = errors_in(lines, kind)
    if not found:
        last = " ".join(line.strip() for line in lines[-LAST_LINES:]) or "it said nothing"
        return kind(f"tvmake {arguments[0]}", f"ended with exit code {code}: {last}")
    return found[0] if len(found) == 1 else ErrorList(found)
