"""A real Slurm on this machine, as tests see it."""

import datetime
import fcntl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.patience import HANG_S

SCRIPT = Path(__file__).with_name("slurm.sh")

ATTENTIVE = Path(__file__).with_name("attentive.py")
"""``tvmake``, for the commands that send jobs."""

PLUGINS = Path(sys.prefix) / "cluster"
"""Snakemake's plugins for clusters, where they are not installed like everything else."""

OPTIONS = (
    "--profile", "slurm", "--retries", "0", "--latency-wait", "10", "--slurm-init-seconds-before-status-checks", "2",
)  # fmt: skip
"""Jobs are short here, and there is nothing to gain from another attempt."""

MAKE = (sys.executable, str(ATTENTIVE), "make", *OPTIONS)
"""A run in a process of its own, which a test may kill."""


def has_plugins() -> bool:
    """Whether Snakemake can send jobs to Slurm, with :data:`PLUGINS` on PYTHONPATH."""
    return PLUGINS.is_dir() or find_spec("snakemake_executor_plugin_slurm") is not None


@dataclass(frozen=True)
class Job:
    """What Slurm says of one job."""

    number: int
    comment: str
    node: str
    state: str
    gres: str
    start: datetime.datetime | None
    end: datetime.datetime | None


@contextmanager
def started(directory: Path) -> Iterator["Slurm"]:
    """A Slurm for as long as the block lasts.

    A machine has one at a time, because its commands know only one: whoever wants another waits for it.

    Raises:
        RuntimeError: it does not start; with the reason.
    """
    with (Path(tempfile.gettempdir()) / "tvmake-slurm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Its daemons outlive the command, and would keep the ends of pipes open.
        with (directory / "start.log").open("w+") as said:
            done = subprocess.run([SCRIPT, "start", directory], stdout=said, stderr=said, timeout=HANG_S, check=False)
            said.seek(0)
            if done.returncode:
                raise RuntimeError(said.read().strip())
        try:
            yield Slurm(directory)
        finally:
            subprocess.run([SCRIPT, "stop", directory], check=True, timeout=HANG_S)


class Slurm:
    """The cluster, while it runs."""

    def __init__(self, directory: Path):
        self.directory = directory

    @property
    def elsewhere(self) -> Path:
        """A directory that the nodes of the partition ``far`` do not share."""
        return self.directory / "elsewhere"

    def jobs(self, project: Path) -> list[Job]:
        """The jobs of a project, the finished ones too, in the order they were sent."""
        fields = "%i|%k|%N|%T|%b|%S|%e|%Z"
        lines = _slurm("squeue", "--states=all", "--noheader", "--sort=i", f"--format={fields}").splitlines()
        found = []
        for number, comment, node, state, gres, start, end, directory in (line.split("|") for line in lines):
            if Path(directory) == project:
                found.append(Job(int(number), comment, node, state, gres, _moment(start), _moment(end)))
        return found

    def running(self, project: Path, rule: str) -> list[Job]:
        """The running jobs of a rule."""
        return [job for job in self.jobs(project) if job.state == "RUNNING" and rule in job.comment]

    def end_time_now(self, job: Job) -> None:
        """Have a job reach its time limit."""
        _slurm("scontrol", "update", f"JobId={job.number}", "EndTime=now")

    def drain(self, node: str) -> None:
        """Let a node finish what it is at, and give it nothing more."""
        _slurm("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")

    def resume(self, node: str) -> None:
        """Give a node work again."""
        _slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")


def _slurm(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=HANG_S).stdout


def _moment(text: str) -> datetime.datetime | None:
    return None if text in ("N/A", "Unknown") else datetime.datetime.fromisoformat(text)
