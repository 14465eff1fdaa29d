"""A directory for libraries that live for seconds."""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tvmake.artifact.files import writing

PREFIX = "tvmake-measuring-"

YOUNG_S = 60.0
"""A directory this young may belong to a process that has not locked it yet."""


class Scratch:
    """A temporary directory that is removed at the latest when the next one is made after its owner died.

    Raises:
        MachineError: it cannot be made.
    """

    def __init__(self) -> None:
        place = Path(tempfile.gettempdir())
        _sweep(place)
        with writing(place):
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
            self._lock = os.open(self.path, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _sweep(place: Path) -> None:
    for left in place.glob(f"{PREFIX}*"):
        # It may be another user's, or vanish while we look.
        with suppress(OSError):
            if time.time() - left.stat().st_mtime < YOUNG_S:
                continue
            lock = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)
