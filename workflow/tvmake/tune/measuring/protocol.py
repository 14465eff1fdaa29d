"""What templates and workers are told, and what they answer, beside the requests of each role."""

import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORK, END = b"F", b"E"
NUMBER = struct.Struct("!i")
MESSAGE = 1 << 16
"""Bytes of the longest message to a template."""


@dataclass(frozen=True)
class Setup:
    """What a template is for."""

    role: str
    options: Any
    """The role's own; pickled, like every message between these processes."""
    scratch: Path
    """Removed at the end."""
    job: int = 0
    """The process that started the template."""
    beside: Path | None = None
    """Where it hears that others time on the device (:mod:`tvmake.tune.measuring.standstill`)."""


@dataclass(frozen=True)
class Failed:
    """A worker's answer to a request that it could not fulfil."""

    line: str


def signal_group(worker: int, number: int) -> None:
    """Signal a worker and all it started; nothing happens if it has ended."""
    # The fork makes itself the leader of a group first of all; until then it is alone.
    for send in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            send(worker, number)
            return
