"""One check of the machine, and its outcome."""

import signal
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

Status = Literal["ok", "missing", "problem"]


@dataclass(frozen=True)
class Check:
    """One property of a machine: present, missing or bad.

    ``hint`` is the remedy; empty if the status is ok. ``required`` marks what tvmake cannot work without.
    """

    group: str
    name: str
    status: Status
    detail: str = ""
    hint: str = ""
    required: bool = False

    @property
    def is_fatal(self) -> bool:
        """Whether tvmake cannot work on this machine because of it."""
        return self.required and self.status != "ok"

    def as_json(self) -> dict[str, str | bool]:
        """The fields as a mapping."""
        return asdict(self)


def output_of(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Exit code and joined output of a command; 127 if it does not exist, 124 after ``timeout_s``."""
    try:
        finished = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return 124, (error.stdout or b"").decode(errors="replace")
    except OSError as error:
        return 127, error.strerror or str(error)
    return finished.returncode, finished.stdout.decode(errors="replace")


def last_line(text: str, limit: int = 160) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:limit] if lines else ""


def ending(code: int, output: str) -> str:
    """Why a command of :func:`output_of` failed, in one line."""
    if code == 124:
        return "takes too long"
    if code < 0:
        return f"crashed with {signal.Signals(-code).name}"
    return last_line(output) or f"exit code {code}"
