"""The fault of a drained cluster node: the run's jobs use a Slurm on this machine."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.slurm import ATTENTIVE, OPTIONS, PLUGINS, Slurm, has_plugins, started
from tests.requirements import COMPONENTS

from faults.disturbed import Disturbed

DRAIN = "drain"

NODES = ("n1", "n2")
"""Of the partition that jobs go to by default."""

LONGEST_S = 20.0
"""How long a node stays drained, at most; jobs wait when another round drains the other one."""


def is_possible() -> bool:
    """Whether this machine can run a Slurm of its own, and Snakemake can send jobs to it."""
    return COMPONENTS["Slurm"].is_there() and has_plugins() and os.geteuid() == 0


@contextmanager
def cluster() -> Iterator[None]:
    """A Slurm for as long as the block lasts."""
    with (
        tempfile.TemporaryDirectory(prefix="tvmake-slurm-", ignore_cleanup_errors=True) as directory,
        started(Path(directory)),
    ):
        yield


def through_slurm(at: Disturbed) -> None:
    """The command sends its jobs to Slurm."""
    paths = [str(PLUGINS), os.environ.get("PYTHONPATH", "")]
    at.project.disturbances = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    at.command = (sys.executable, str(ATTENTIVE), "make")
    at.arguments += OPTIONS
    at.after.append(at.project.disturbances.clear)


def drain(at: Disturbed, run: subprocess.Popen[str]) -> None:
    """One of two nodes finishes what it is at, and gets nothing more for a while."""
    slurm, node = Slurm(Path()), at.rng.choice(NODES)
    if at.at_some_time(run):
        slurm.drain(node)
        until = time.monotonic() + at.rng.uniform(1.0, LONGEST_S)
        try:
            while time.monotonic() < until and run.poll() is None:
                time.sleep(0.1)
        finally:
            slurm.resume(node)
        jobs = [job.node for job in slurm.jobs(at.project.directory)]
        at.notes.append(f"{node} drained; jobs on {', '.join(f'{name}: {jobs.count(name)}' for name in NODES)}")
