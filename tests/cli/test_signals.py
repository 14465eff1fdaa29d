"""SIGTERM lets running jobs finish, whatever Snakemake is at when it comes."""

import subprocess
import sys

import pytest

AT_WORK = """
import os, signal, threading
from snakemake.scheduling.job_scheduler import JobScheduler
{before}
scheduler = object.__new__(JobScheduler)
scheduler._lock, scheduler._open_jobs, scheduler._user_kill = threading.Lock(), threading.Semaphore(0), None
signal.signal(signal.SIGTERM, scheduler.exit_gracefully)
with {lock}:
    os.kill(os.getpid(), signal.SIGTERM)
    [None for _ in range(1000)]
assert scheduler._open_jobs.acquire(timeout=30)
print(scheduler._user_kill)
"""

OURS = "from tvmake.cli.signals import sigterm_without_locks; sigterm_without_locks()"


def interrupted(before: str, lock: str, timeout_s: float) -> str:
    command = [sys.executable, "-c", AT_WORK.format(before=before, lock=lock)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=True).stdout


@pytest.mark.parametrize("lock", ["scheduler._lock", "scheduler._open_jobs._cond"])
def test_a_sigterm_while_snakemake_holds_its_locks_does_not_block_it(lock: str):
    assert interrupted(OURS, lock, 60) == "graceful\n"


def test_snakemakes_own_handler_still_blocks_so_that_ours_is_needed():
    with pytest.raises(subprocess.TimeoutExpired):
        interrupted("", "scheduler._lock", 8)
