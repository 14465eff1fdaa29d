"""While one tuning job times a candidate, the others on the machine are paused, and always resume afterwards."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.requirements import require
from tests.tune.measure.processes import eventually, fork_servers, is_alive, kill, program, state, workers
from tvmake.tune.measure.pause_others import IS_SUPPORTED, others_paused, socket_directory

pytestmark = pytest.mark.long

JOB = """
import sys
from tests.tune.measure import kernels
from tests.tune.measure.conftest import QUICK
from tvmake.tune.measure.local import LocalMeasurer
measurer = LocalMeasurer(kernels.target(), QUICK.model_copy(update={"build_timeout_s": 300}), 2, device_name="bench")
print("measuring", flush=True)
for measured in measurer.measure([kernels.slow_to_build(0), kernels.slow_to_build(1)]):
    pass
"""

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
def running(code: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process that has written its first line."""
    process = program(code)
    try:
        assert process.stdout is not None and process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def job_that_builds() -> Iterator[list[int]]:
    """A job: its process, and its two builders."""
    with running(JOB) as process:
        builders = eventually(lambda: found if len(found := workers("build", process.pid)) == 2 else [])
        family = [process.pid, *builders]
        yield family
    eventually(lambda: not any(is_alive(one) for one in family))


@pytest.fixture
def job(own_leases: Path) -> Iterator[list[int]]:
    """A job for a test that kills parts of it."""
    with job_that_builds() as family:
        yield family


class Unharmed:
    """A job for tests that do not change it."""

    def __init__(self, stack: ExitStack):
        self._stack = stack
        self._family: list[int] = []

    def family(self) -> list[int]:
        """The job; a new one if it has finished its builds."""
        if not self._family or not goes_on(self._family):
            self._stack.close()
            self._family = self._stack.enter_context(job_that_builds())
        return self._family


@pytest.fixture(scope="module")
def unharmed(own_leases: Path) -> Iterator[Unharmed]:
    with ExitStack() as stack:
        yield Unharmed(stack)


@pytest.fixture
def shared_job(unharmed: Unharmed) -> list[int]:
    return unharmed.family()


def is_paused(family: list[int]) -> bool:
    return all(state(one) == "T" for one in family)


def goes_on(family: list[int]) -> bool:
    return all(is_alive(one) and state(one) != "T" for one in family)


def test_another_job_and_its_builders_are_paused_for_as_long_as_one_times(shared_job: list[int]):
    with others_paused(socket_directory("bench"), 0, limit_s=600):
        eventually(lambda: is_paused(shared_job))
    eventually(lambda: goes_on(shared_job))


def test_a_hanging_candidate_pauses_other_jobs_only_briefly(shared_job: list[int]):
    with others_paused(socket_directory("bench"), 0, limit_s=5):
        eventually(lambda: is_paused(shared_job))
        eventually(lambda: goes_on(shared_job))


def test_as_many_jobs_continue_as_cores_are_free(shared_job: list[int]):
    with others_paused(socket_directory("bench"), 1):
        assert goes_on(shared_job)


def test_jobs_of_another_device_are_not_paused(shared_job: list[int]):
    with others_paused(socket_directory("phone"), 0):
        assert goes_on(shared_job)


def test_when_the_timing_job_is_killed_the_others_resume(shared_job: list[int]):
    with running(HOLDER) as holder:
        eventually(lambda: is_paused(shared_job))
        kill(holder.pid)
        eventually(lambda: goes_on(shared_job))


def test_when_a_fork_server_is_killed_its_paused_job_resumes(job: list[int]):
    with others_paused(socket_directory("bench"), 0, limit_s=600):
        eventually(lambda: is_paused(job))
        kill(fork_servers("build", job[0])[0])
    eventually(lambda: goes_on(job[:1]))


def test_a_job_that_is_killed_while_it_is_paused_leaves_nothing_behind(job: list[int]):
    family = [*job, *fork_servers("", job[0])]
    with others_paused(socket_directory("bench"), 0, limit_s=600):
        eventually(lambda: is_paused(job))
        os.kill(job[0], signal.SIGKILL)
        eventually(lambda: not any(is_alive(one) for one in family))
    with others_paused(socket_directory("bench"), 0):  # removes what nobody listens at
        pass
    assert list(socket_directory("bench").glob(f"{job[0]}-*")) == []


def test_a_job_does_not_stop_itself(shared_job: list[int]):
    place = socket_directory("bench")
    (place / f"{os.getpid()}-1").touch()
    with others_paused(place, 0):
        assert state(os.getpid()) == "R"
    (place / f"{os.getpid()}-1").unlink()
