"""Ctrl-C while a log record is queued does not block the run forever.

The ``put`` of a ``SimpleQueue`` cannot be interrupted. Repair: `log-queue`.
"""

from queue import SimpleQueue
from typing import Any

from tvmake.engine.patches import is_needed

AFFECTED = ">=9.27,<10"


def apply() -> None:
    """Replace the class of Snakemake's log queue in this process."""
    import snakemake.logging

    if is_needed(AFFECTED):
        snakemake.logging.Queue = _queue


def _queue(_maxsize: int = 0) -> SimpleQueue[Any]:
    return SimpleQueue()
