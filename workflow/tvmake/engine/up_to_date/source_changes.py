"""Detect source files and config files that change during a run: its results may come from the previous version."""

from collections.abc import Iterable
from pathlib import Path

from tvmake.engine.up_to_date.sources import known_digests
from tvmake.plan.plan import Job


class SourceChangeMonitor:
    """The sources of a run's jobs, with their digests before it.

    Args:
        config_files: the files that its plan was read from.
    """

    def __init__(self, config_files: Iterable[Path]) -> None:
        self._before = {str(file): _digest(str(file)) for file in config_files}

    def watch(self, jobs: Iterable[Job]) -> None:
        """Record the digests of sources that are not recorded yet."""
        for name in dict.fromkeys(name for job in jobs for name in job.sources):
            if name not in self._before:
                self._before[name] = _digest(name)

    def changed(self) -> list[str]:
        """The files that changed or were deleted."""
        return [name for name, digest in self._before.items() if _digest(name) != digest]


def _digest(name: str) -> str:
    try:
        return known_digests().digest(name)
    except OSError:
        return ""
