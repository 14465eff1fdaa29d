"""SIGTERM while jobs are selected or finished does not block the run forever.

The handler sets a value that needs no lock. Repair: `sigterm-lock`.
"""

import threading
from typing import Any

from tvmake.engine.patches import is_needed

AFFECTED = ">=9.27,<10"


def apply() -> None:
    """Replace ``JobScheduler.exit_gracefully`` in this process."""
    from snakemake.scheduling.job_scheduler import JobScheduler

    if is_needed(AFFECTED):
        JobScheduler.exit_gracefully = _exit_gracefully


def _exit_gracefully(scheduler: Any, *_: object) -> None:
    scheduler._user_kill = "graceful"
    # The semaphore has a lock too: release it in a thread that may wait.
    threading.Thread(target=scheduler._open_jobs.release, daemon=True).start()
