"""Templates forked from warm servers: the same results, and nothing left behind."""

import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.tune.measure import kernels
from tests.tune.measure.blocking_compiler import BlockingCompiler
from tests.tune.measure.conftest import QUICK
from tests.tune.measure.processes import (
    children,
    cold_fork_servers,
    eventually,
    is_alive,
    kill,
    program,
    warm_fork_servers,
    warm_servers_here,
)
from tests.tune.measure.test_local import TUNING
from tvmake.tune.measure.local import LocalMeasurer

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm")]


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
        assert cold_fork_servers() == []
        family = list(warm_fork_servers())
    eventually(lambda: not any(is_alive(process) for process in family))


def test_variables_that_libraries_may_read_as_they_load_want_a_fresh_process():
    with closing(LocalMeasurer(kernels.target(), QUICK, 1, env={"ASKED": "yes"})) as measurer:
        (measured,) = measurer.measure([kernels.unless_zero(0, ("strcmp", ("getenv", "ASKED"), "yes"))])
        assert measured.status == "ok"
        assert list(warm_fork_servers().values()) == ["tuner"]
        assert len(cold_fork_servers("run")) == 1


def test_a_killed_fork_server_is_replaced_and_no_candidate_suffers():
    with closing(LocalMeasurer(kernels.target(), QUICK, 2, threads=1)) as measurer:
        assert [measured.status for measured in measurer.measure([kernels.add(0)])] == ["ok"]
        for fork_server in warm_fork_servers():
            kill(fork_server)
        assert [measured.status for measured in measurer.measure([kernels.add(0), kernels.add(1)])] == ["ok"] * 2
        assert len(warm_fork_servers()) == 2


@pytest.fixture
def tuning(tmp_path: Path) -> tuple[subprocess.Popen[str], list[int], Path]:
    """A tuning process that times a candidate and builds another, its fork servers and their workers, and its scratch directory."""
    compiler = BlockingCompiler(tmp_path / "driver")
    compiler.block_next()
    process = program(TUNING, compiler.path)
    scratch = Path(process.stdout.readline().strip())
    eventually(
        lambda: all(children(fork_server) for fork_server in warm_fork_servers()) and len(warm_fork_servers()) == 2
    )
    family = [
        *warm_fork_servers(),
        *(worker for fork_server in warm_fork_servers() for worker in children(fork_server)),
    ]
    assert len(family) >= 4 and scratch.is_dir()
    return process, family, scratch


def kill_with_family(process: subprocess.Popen[str], family: list[int], scratch: Path) -> None:
    """Kill a tuning process, and wait until nothing is left of it."""
    kill(process.pid)
    process.wait()
    eventually(lambda: not any(is_alive(member) for member in family))
    eventually(lambda: not scratch.exists())


def test_a_killed_tuning_process_leaves_no_process_and_no_file(tuning: tuple[subprocess.Popen[str], list[int], Path]):
    kill_with_family(*tuning)


def test_without_their_servers_fork_servers_live_until_their_tuning_process_ends(
    tuning: tuple[subprocess.Popen[str], list[int], Path],
):
    _, family, _ = tuning
    for server in warm_servers_here():
        kill(server)
    assert all(is_alive(process) for process in family)
    kill_with_family(*tuning)
