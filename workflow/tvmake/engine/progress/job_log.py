"""Read failures from a job's log."""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from tvmake.storage.refusals import is_full, no_space

TAIL = 12
"""Number of lines shown of a log that names no error."""

CLOCKS_DIFFER_S = 60.0

SILENT = "error: it ended without a message: it was killed, ran out of memory, or had no space for its log"
NO_SPACE, NO_SPACE_REMEDY = f"error: {no_space('its log')}".splitlines()


def written_since(log: Path, moment: float) -> bool:
    """Whether a log was written in this run. Clocks of a network file system may differ by a minute.

    Args:
        log: the log; False if it does not exist.
        moment: start of the run, in seconds since 1970.
    """
    try:
        return log.stat().st_mtime >= moment - CLOCKS_DIFFER_S
    except OSError:
        return False


def failure_lines(log: Path) -> list[str]:
    """The ``error:`` lines of a job's log with their remedies, or the end of the log if there are none."""
    lines = log_lines(log)
    if lines is None:
        return ["(no log was written)"]
    lines = [line for line in lines if not _LAST_LINE.match(line)]
    return error_lines(log) or lines[-TAIL:] or ([NO_SPACE, NO_SPACE_REMEDY] if is_full(log.parent) else [SILENT])


def _of_llvm(lines: Iterable[str]) -> list[str]:
    """LLVM's error if it cannot write an object file. It ends the process then."""
    for line in lines:
        if refused := re.match("LLVM ERROR: IO failure on output stream: (.+)", line):
            remedy = "free space in the directory of temporary files, or set TMPDIR to another one; see `ulimit -f`"
            return [f"error: a temporary file cannot be written: {refused[1].lower()}", f"  {remedy}"]
    return []


def error_lines(log: Path) -> list[str]:
    """The ``error:`` lines of a log with their remedies."""
    lines = log_lines(log) or []
    if known := _of_llvm(lines):  # more specific than the end of the process
        return known
    errors: list[str] = []
    for start in (index for index, line in enumerate(lines) if line.startswith("error: ")):
        errors.append(lines[start])
        for line in lines[start + 1 :]:
            if not line.startswith("  "):
                break
            errors.append(line)
    return errors


_LAST_LINE = re.compile(r'^\{"stage": .*"exit": (-?\d+),', re.MULTILINE)
"""Last line of a step's log (:mod:`tvmake.cli.step.process`)."""


STOPPED = "interrupted; the run that it belongs to was stopped"

_STOPPED = re.compile(r"^(error: \w+: )?(interrupted|ended by SIG\w+)(; |$)")
"""Message of a step that was stopped (:mod:`tvmake.process.stopping`, :mod:`tvmake.cli.step.process`)."""

Ending = Literal["none", "ended", "failed", "interrupted", "cut short"]


def ending(log: Path) -> Ending:
    """Return how the job of a log ended: without an error, with one, by a signal, or ``cut short`` (also while it runs).

    ``none``: there is no log.
    """
    lines = log_lines(log)
    if lines is None:
        return "none"
    ended = _LAST_LINE.findall("\n".join(lines))
    if any(_STOPPED.search(line) for line in lines[-TAIL:]):
        return "interrupted"
    if error_lines(log) or (ended and ended[-1] != "0"):
        return "failed"
    return "ended" if ended else "cut short"


def note_stopped(logs: Iterable[Path]) -> None:
    """Append to the logs of jobs that were killed with a run that the run was stopped."""
    for log in logs:
        if log.suffix == ".log" and ending(log) == "cut short":
            with suppress(OSError), log.open("a") as file:
                file.write(f"{STOPPED}\n")


def log_lines(log: Path) -> list[str] | None:
    """The lines of a log; None if it does not exist."""
    try:
        return log.read_text(errors="replace").splitlines()
    except OSError:
        return None
