"""Templates forked from warm servers: the same results, and nothing left behind."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.requirements import require
from tests.tune.measure import kernels
from tests.tune.measure.conftest import QUICK
from tests.tune.measure.processes import children, command, eventually, fork_servers, is_alive, kill, program
from tests.tune.measure.test_local import TUNING
from tvmake.process.forkserver.pool import warm_servers
from tvmake.stages.preload import PRELOADS
from tvmake.tune.measure.local import LocalMeasurer

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", autouse=True)
def servers(own_leases: Path) -> Iterator[None]:
    """Warm servers for all of these tests."""
    require(hasattr(os, "pidfd_open"), "a Linux kernel with pidfd_open")
    with warm_servers(PRELOADS):
        yield


def warm_fork_servers() -> dict[int, str]:
    """Forks of this process's servers, and what kind of server each is from."""
    found = {}
    for server in children(os.getpid()):
        words = command(server).split()
        if "tvmake.process.forkserver.server" in words:
            found |= dict.fromkeys(children(server), words[words.index("tvmake.process.forkserver.server") + 1])
    return found


def test_builders_come_from_the_tuner_and_runners_from_the_runtime():
    with closing(LocalMeasurer(kernels.target(), QUICK, 2, threads=1)) as measurer:
        candidates = [
            kernels.add(0),
            kernels.crashing(1),
            kernels.unless_zero(2, ("strcmp", ("getenv", "TVM_NUM_THREADS"), "1")),
        ]
        statuses = {measured.number: measured.status for measured in measurer.measure(candidates)}
        assert statuses == {0: "ok", 1: "run_error", 2: "ok"}
        assert sorted(warm_fork_servers().values()) == ["runtime", "tuner"]
        assert fork_servers() == []
        family = list(warm_fork_servers())
    eventually(lambda: not any(is_alive(process) for process in family))


def test_variables_that_libraries_may_read_as_they_load_want_a_fresh_process():
    with closing(LocalMeasurer(kernels.target(), QUICK, 1, env={"ASKED": "yes"})) as measurer:
        (measured,) = measurer.measure([kernels.unless_zero(0, ("strcmp", ("getenv", "ASKED"), "yes"))])
        assert measured.status == "ok"
        assert list(warm_fork_servers().values()) == ["tuner"]
        assert len(fork_servers("run")) == 1


def test_a_killed_fork_server_is_replaced_and_no_candidate_suffers():
    with closing(LocalMeasurer(kernels.target(), QUICK, 2, threads=1)) as measurer:
        assert [measured.status for measured in measurer.measure([kernels.add(0)])] == ["ok"]
        for fork_server in warm_fork_servers():
            kill(fork_server)
        assert [measured.status for measured in measurer.measure([kernels.add(0), kernels.add(1)])] == ["ok"] * 2
        assert len(warm_fork_servers()) == 2


def test_a_killed_tuning_process_leaves_no_process_and_no_file():
    tuning = program(TUNING)
    scratch = Path(tuning.stdout.readline().strip())
    eventually(
        lambda: all(children(fork_server) for fork_server in warm_fork_servers()) and len(warm_fork_servers()) == 2
    )
    family = [
        *warm_fork_servers(),
        *(worker for fork_server in warm_fork_servers() for worker in children(fork_server)),
    ]
    assert len(family) >= 4 and scratch.is_dir()
    kill(tuning.pid)
    tuning.wait()
    eventually(lambda: not any(is_alive(process) for process in family))
    eventually(lambda: not scratch.exists())


def test_without_their_servers_fork_servers_live_until_their_tuning_process_ends():
    tuning = program(TUNING)
    scratch = Path(tuning.stdout.readline().strip())
    eventually(
        lambda: all(children(fork_server) for fork_server in warm_fork_servers()) and len(warm_fork_servers()) == 2
    )
    family = [
        *warm_fork_servers(),
        *(worker for fork_server in warm_fork_servers() for worker in children(fork_server)),
    ]
    for server in children(os.getpid()):
        if "tvmake.process.forkserver.server" in command(server):
            kill(server)
    assert all(is_alive(process) for process in family)
    kill(tuning.pid)
    tuning.wait()
    eventually(lambda: not any(is_alive(process) for process in family))
    eventually(lambda: not scratch.exists())
