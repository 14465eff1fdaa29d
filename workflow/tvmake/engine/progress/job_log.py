"""What a job's log says of its failure."""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from tvmake.storage.refusals import is_full, no_space

TAIL = 12
"""Lines of a log to show when it names no error itself."""

CLOCKS_DIFFER_S = 60.0

SILENT = "error: it ended without a word: killed from outside, out of memory, or no space was left for its log"
NO_SPACE, NO_SPACE_REMEDY = f"error: {no_space('its log')}".splitlines()


def written_since(log: Path, moment: float) -> bool:
    """Whether a log is of this run; clocks of a network file system may differ by a minute.

    Args:
        log: the log; one that is not there is of no run.
        moment: when the run began, in seconds since 1970.
    """
    try:
        return log.stat().st_mtime >= moment - CLOCKS_DIFFER_S
    except OSError:
        return False


def telling_lines(log: Path) -> list[str]:
    """The ``error:`` lines of a job's log with their remedies, or the log's end when it has none."""
    lines = log_lines(log)
    if lines is None:
        return ["(no log was written)"]
    lines = [line for line in lines if not _LAST_LINE.match(line)]
    return error_lines(log) or lines[-TAIL:] or ([NO_SPACE, NO_SPACE_REMEDY] if is_full(log.parent) else [SILENT])


def _of_llvm(lines: Iterable[str]) -> list[str]:
    """What LLVM says where it cannot write an object file, before it ends the process."""
    for line in lines:
        if refused := re.match("LLVM ERROR: IO failure on output stream: (.+)", line):
            remedy = "make room in the directory of temporary files, or name another one: TMPDIR; see `ulimit -f`"
            return [f"error: a temporary file cannot be written: {refused[1].lower()}", f"  {remedy}"]
    return []


def error_lines(log: Path) -> list[str]:
    """The ``error:`` lines of a log with their remedies."""
    lines = log_lines(log) or []
    if known := _of_llvm(lines):  # which knows more than who saw the process end
        return known
    telling: list[str] = []
    for start in (index for index, line in enumerate(lines) if line.startswith("error: ")):
        telling.append(lines[start])
        for line in lines[start + 1 :]:
            if not line.startswith("  "):
                break
            telling.append(line)
    return telling


_LAST_LINE = re.compile(r'^\{"stage": .*"exit": (-?\d+),', re.MULTILINE)
"""What a step writes at its end (:mod:`tvmake.cli.step.process`)."""


STOPPED = "interrupted; the run that it belongs to was stopped"

_STOPPED = re.compile(r"^(error: \w+: )?(interrupted|ended by SIG\w+)(; |$)")
"""What a step writes that was stopped (:mod:`tvmake.process.stopping`, :mod:`tvmake.cli.step.process`)."""

Ending = Literal["none", "ended", "failed", "interrupted", "cut short"]


def ending(log: Path) -> Ending:
    """How the job of a log ended: without an error, with one, stopped by a signal, or without a word, as one that still runs has it.

    ``none`` is no log.
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
    """Say in the logs of jobs that ended without a word, as those do that are killed with a run, that it was stopped."""
    for log in logs:
        if log.suffix == ".log" and ending(log) == "cut short":
            with suppress(OSError), log.open("a") as file:
                file.write(f"{STOPPED}\n")


def log_lines(log: Path) -> list[str] | None:
    """The lines of a log; None where there is none."""
    try:
        return log.read_text(errors="replace").splitlines()
    except OSError:
        return None
