"""SIGTERM lets running jobs finish, and Ctrl-C ends the run, at any point of Snakemake's work.

Where a test of Snakemake's own behaviour fails, the patch that it names can go.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG_S

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
assert scheduler._open_jobs.acquire(timeout={limit_s})
print(scheduler._user_kill)
"""

OURS = "from tvmake.engine.patches import log_queue, sigterm_lock; log_queue.apply(); sigterm_lock.apply()"


def interrupted(before: str, lock: str, timeout_s: float) -> str:
    command = [sys.executable, "-c", AT_WORK.format(before=before, lock=lock, limit_s=HANG_S)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=True).stdout


@pytest.mark.parametrize("lock", ["scheduler._lock", "scheduler._open_jobs._cond"])
def test_a_sigterm_while_snakemake_holds_its_locks_does_not_block_it(lock: str):
    assert interrupted(OURS, lock, HANG_S) == "graceful\n"


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


@pytest.mark.parametrize("interrupts", [200, pytest.param(1000, marks=pytest.mark.soak)])
def test_a_ctrl_c_during_logging_does_not_block_later_logging(interrupts: int):
    assert logged(OURS, interrupts, HANG_S) == "ended\n"


REPLACED = """
import importlib, pkgutil, sys
import snakemake.cli, snakemake.logging
from snakemake.scheduling.job_scheduler import JobScheduler
{before}

def attributes(owner):
    return {{(owner.__name__, name): id(value) for name, value in vars(owner).items() if not name.startswith("__")}}

def all_attributes():
    found = {{}}
    for name, module in list(sys.modules.items()):
        if module is not None and name.partition(".")[0].startswith("snakemake"):
            found |= attributes(module)
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name:
                    found |= attributes(value)
    return found

before = all_attributes()
{during}
after = all_attributes()
print(sorted(".".join(key) for key, value in before.items() if after.get(key) != value))
"""


def replaced(during: str, before: str = "") -> str:
    """Record the attributes of Snakemake that are replaced, as a list."""
    command = [sys.executable, "-c", REPLACED.format(before=before, during=during)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True).stdout.strip()


def test_no_other_attribute_of_snakemakes_is_replaced():
    assert replaced(OURS) == "['JobScheduler.exit_gracefully', 'snakemake.logging.Queue']"


def test_an_unaffected_release_is_not_patched():
    newer = "from tvmake.engine import patches; patches.metadata.version = lambda _: '10.0'"
    assert replaced(OURS, before=newer) == "[]"


@pytest.mark.parametrize("patch", ["sigterm_lock", "log_queue"])
def test_every_patch_has_its_upstream_proposal(patch: str):
    from tvmake.engine import patches

    upstream = Path(patches.__file__).with_name(f"{patch}.patch").read_text()
    assert upstream.startswith("From: ") and "\nSubject: " in upstream and "\n--- a/src/snakemake/" in upstream
