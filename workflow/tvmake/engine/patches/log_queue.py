"""A Ctrl-C that comes while a record of the log is queued does not block the run for good.

``queue.Queue.put`` takes a lock in Python; an exception that a signal raises there leaves it taken, and the next record waits for
ever. The ``put`` of a ``SimpleQueue`` cannot be interrupted. Remove when
tests/engine/test_patches.py::test_snakemakes_own_queue_still_keeps_its_lock_after_a_ctrl_c fails.
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
