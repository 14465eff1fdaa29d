"""SIGTERM lets running jobs finish, and Ctrl-C ends the run, whatever Snakemake is at when they come."""

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

OURS = "from tvmake.cli.signals import signals_without_locks; signals_without_locks()"


def interrupted(before: str, lock: str, timeout_s: float) -> str:
    command = [sys.executable, "-c", AT_WORK.format(before=before, lock=lock)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=True).stdout


@pytest.mark.parametrize("lock", ["scheduler._lock", "scheduler._open_jobs._cond"])
def test_a_sigterm_while_snakemake_holds_its_locks_does_not_block_it(lock: str):
    assert interrupted(OURS, lock, 60) == "graceful\n"


def test_snakemakes_own_handler_still_blocks_so_that_ours_is_needed():
    with pytest.raises(subprocess.TimeoutExpired):
        interrupted("", "scheduler._lock", 8)


LOGGING = """
import logging, logging.handlers, signal
import snakemake.logging
{before}

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
queue = snakemake.logging.Queue(-1)  # as Snakemake's LoggerManager has it
listener = logging.handlers.QueueListener(queue, logging.NullHandler())
listener.start()
logger = logging.Logger("run")
logger.addHandler(logging.handlers.QueueHandler(queue))
interrupts = 0
while interrupts < {interrupts}:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        while True:
            logger.info("a job")
    except KeyboardInterrupt:
        interrupts += 1
listener.stop()
print("ended")
"""


def logged(before: str, interrupts: int, timeout_s: float) -> str:
    command = [sys.executable, "-c", LOGGING.format(before=before, interrupts=interrupts)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=True).stdout


def test_a_ctrl_c_while_something_is_logged_does_not_block_what_is_logged_next():
    assert logged(OURS, 1000, 120) == "ended\n"


def test_snakemakes_own_queue_still_blocks_so_that_ours_is_needed():
    with pytest.raises(subprocess.TimeoutExpired):
        logged("", 1_000_000, 8)
