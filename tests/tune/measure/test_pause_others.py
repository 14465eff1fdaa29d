"""While one tuning job times a candidate, the others on the machine are paused, and always resume afterwards."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.requirements import require
from tests.tune.measure.processes import callers, eventually, fork_servers, is_alive, kill, program, state
from tvmake.tune.measure.pause_others import IS_SUPPORTED, others_paused, socket_directory

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm")]

JOB = """
import sys
from tests.tune.measure import kernels
from tests.tune.measure.conftest import QUICK
from tvmake.tune.measure.local import LocalMeasurer
measurer = LocalMeasurer(kernels.target(), QUICK, 2, device_name="bench", driver=sys.argv[1])
print("measuring", flush=True)
for measured in measurer.measure([kernels.add(0), kernels.add(1)]):
    pass
"""

ENDLESS_COMPILER = """#!/bin/sh
case "$1" in -print-*) exit ;; esac
while kill -0 $PPID 2> /dev/null; do sleep 0.1; done
"""
"""Ends with the process that started it."""

HOLDER = """
import time
from tvmake.tune.measure.pause_others import others_paused, socket_directory
with others_paused(socket_directory("bench"), 0, limit_s=600):
    print("paused", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _linux() -> None:
    require(IS_SUPPORTED, "Linux with pidfd_open")


@contextmanager
def running(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process that has written its first line."""
    process = program(code, *arguments)
    try:
        assert process.stdout is not None and process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Job:
    """A job that builds without end."""

    process: int
    builders: list[int]
    fork_servers: dict[str, int]
    """By role."""

    @property
    def family(self) -> list[int]:
        """The job and its builders."""
        return [self.process, *self.builders]


@contextmanager
def job_that_builds(compiler: Path) -> Iterator[Job]:
    others = {*callers(str(compiler)), *fork_servers()}
    with running(JOB, str(compiler)) as process:
        builders = eventually(lambda: new if len(new := sorted({*callers(str(compiler))} - others)) == 2 else [])
        servers = {role: server for role in ("build", "run") for server in fork_servers(role) if server not in others}
        job = Job(process.pid, builders, servers)
        yield job
    eventually(lambda: not any(is_alive(member) for member in job.family))


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("compiler") / "compiler"
    program.write_text(ENDLESS_COMPILER)
    program.chmod(0o755)
    return program


@pytest.fixture
def job(own_leases: Path, compiler: Path) -> Iterator[Job]:
    """A job for a test that kills parts of it."""
    with job_that_builds(compiler) as job:
        yield job


@pytest.fixture(scope="module")
def shared_job(own_leases: Path, warm: None, compiler: Path) -> Iterator[Job]:
    """A job for tests that do not change it."""
    with job_that_builds(compiler) as job:
        yield job


def is_paused(job: Job) -> bool:
    return all(state(member) == "T" for member in job.family)


def is_running(*members: int) -> bool:
    return all(is_alive(member) and state(member) != "T" for member in members)


def test_another_job_and_its_builders_are_paused_for_as_long_as_one_times(shared_job: Job):
    with others_paused(socket_directory("bench"), 0, limit_s=600):
        eventually(lambda: is_paused(shared_job))
    eventually(lambda: is_running(*shared_job.family))


def test_a_hanging_candidate_pauses_other_jobs_only_briefly(shared_job: Job):
    with others_paused(socket_directory("bench"), 0, limit_s=5):
        eventually(lambda: is_paused(shared_job))
        eventually(lambda: is_running(*shared_job.family))


def test_as_many_jobs_continue_as_cores_are_free(shared_job: Job):
    with others_paused(socket_directory("bench"), 1):
        assert is_running(*shared_job.family)


def test_jobs_of_another_device_are_not_paused(shared_job: Job):
    with others_paused(socket_directory("phone"), 0):
        assert is_running(*shared_job.family)


def test_when_the_timing_job_is_killed_the_others_resume(shared_job: Job):
    with running(HOLDER) as holder:
        eventually(lambda: is_paused(shared_job))
        kill(holder.pid)
        eventually(lambda: is_running(*shared_job.family))


def test_when_a_fork_server_is_killed_its_paused_job_resumes(job: Job):
    with others_paused(socket_directory("bench"), 0, limit_s=600):
        eventually(lambda: is_paused(job))
        kill(job.fork_servers["build"])
    eventually(lambda: is_running(job.process))


def test_a_job_that_is_killed_while_it_is_paused_leaves_nothing_behind(job: Job):
    family = [*job.family, *job.fork_servers.values()]
    with others_paused(socket_directory("bench"), 0, limit_s=600):
        eventually(lambda: is_paused(job))
        kill(job.process)
        eventually(lambda: not any(is_alive(member) for member in family))
    with others_paused(socket_directory("bench"), 0):  # removes what nobody listens at
        pass
    assert list(socket_directory("bench").glob(f"{job.process}-*")) == []


def test_a_job_does_not_stop_itself(shared_job: Job):
    directory = socket_directory("bench")
    (directory / f"{os.getpid()}-1").touch()
    with others_paused(directory, 0):
        assert state(os.getpid()) == "R"
    (directory / f"{os.getpid()}-1").unlink()
