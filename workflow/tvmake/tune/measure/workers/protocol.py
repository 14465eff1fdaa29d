"""Messages between a measuring job, its fork servers and their workers, beside the requests of each role."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORK, END = b"F", b"E"
CLOSE = b"C"
"""To a fork server that is no longer wanted, by a job that goes on."""

NUMBER = struct.Struct("!i")
MESSAGE_BYTES = 1 << 16
"""Of the longest message to a fork server."""


@dataclass(frozen=True)
class Setup:
    """What a fork server is for."""

    role: str
    options: Any
    """The role's; pickled, like every message between these processes."""
    scratch: Path
    """Removed when the job is gone."""
    job: int = 0
    """The process that started the fork server."""
    pause_directory: Path | None = None
    """Where other jobs that time on the device ask for a pause (:mod:`tvmake.tune.measure.pause_others`)."""


@dataclass(frozen=True)
class Failed:
    """A worker's answer to a request that it could not fulfil."""

    line: str
