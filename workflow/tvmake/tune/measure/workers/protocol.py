"""Messages between a measuring job, its fork servers and their workers, except the requests of each role."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORK, END = b"F", b"E"
CLOSE = b"C"
"""Tells a fork server to end while the job continues."""

NUMBER = struct.Struct("!i")
MESSAGE_BYTES = 1 << 16
"""Size of the longest message to a fork server."""


@dataclass(frozen=True)
class Setup:
    """Setup of a fork server."""

    role: str
    options: Any
    """Options of the role; pickled, like every message between these processes."""
    scratch: Path
    """Directory to remove when the job has ended."""
    job: int = 0
    """The process that started the fork server."""
    pause_directory: Path | None = None
    """Directory of the sockets for pause requests (:mod:`tvmake.tune.measure.pause_others`)."""


@dataclass(frozen=True)
class Failed:
    """Answer: the worker failed to process a request."""

    line: str
