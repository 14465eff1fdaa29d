"""Templates forked from warm servers: the same results, and nothing left behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.requirements import require
from tests.tune.measuring import kernels
from tests.tune.measuring.conftest import QUICK
from tests.tune.measuring.processes import children, command, eventually, is_alive, kill, templates
from tests.tune.measuring.test_local import ROOT, TUNING
from tvmake.tune.measuring.local import LocalMeasurer
from tvmake.warm.pool import warm_servers


@pytest.fixture(scope="module", autouse=True)
def servers(own_leases: Path) -> Iterator[None]:
    """Warm servers for all of these tests."""
    require(hasattr(os, "pidfd_open"), "a Linux kernel with pidfd_open")
    with warm_servers():
        yield


def warm_templates() -> dict[int, str]:
    """Forks of this process's servers, and what kind of server each is from."""
    found = {}
    for server in children(os.getpid()):
        words = command(server).split()
        if "tvmake.warm.server" in words:
            found |= dict.fromkeys(children(server), words[words.index("tvmake.warm.server") + 1])
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
        assert sorted(warm_templates().values()) == ["runtime", "tuner"]
        assert templates() == []
        family = list(warm_templates())
    eventually(lambda: not any(is_alive(process) for process in family))


def test_variables_that_libraries_may_read_as_they_load_want_a_fresh_process():
    with closing(LocalMeasurer(kernels.target(), QUICK, 1, env={"ASKED": "yes"})) as measurer:
        (measured,) = measurer.measure([kernels.unless_zero(0, ("strcmp", ("getenv", "ASKED"), "yes"))])
        assert measured.status == "ok"
        assert list(warm_templates().values()) == ["tuner"]
        assert len(templates("run")) == 1


def test_a_killed_template_is_replaced_and_no_candidate_suffers():
    with closing(LocalMeasurer(kernels.target(), QUICK, 2, threads=1)) as measurer:
        assert [measured.status for measured in measurer.measure([kernels.add(0)])] == ["ok"]
        for template in warm_templates():
            kill(template)
        assert [measured.status for measured in measurer.measure([kernels.add(0), kernels.add(1)])] == ["ok"] * 2
        assert len(warm_templates()) == 2


def test_a_killed_tuning_process_leaves_no_process_and_no_file():
    tuning = subprocess.Popen([sys.executable, "-c", TUNING], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    scratch = Path(tuning.stdout.readline().strip())
    eventually(lambda: all(children(template) for template in warm_templates()) and len(warm_templates()) == 2)
    family = [*warm_templates(), *(worker for template in warm_templates() for worker in children(template))]
    assert len(family) >= 4 and scratch.is_dir()
    kill(tuning.pid)
    tuning.wait()
    eventually(lambda: not any(is_alive(process) for process in family))
    eventually(lambda: not scratch.exists())


def test_without_their_servers_templates_live_until_their_tuning_process_ends():
    tuning = subprocess.Popen([sys.executable, "-c", TUNING], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    scratch = Path(tuning.stdout.readline().strip())
    eventually(lambda: all(children(template) for template in warm_templates()) and len(warm_templates()) == 2)
    family = [*warm_templates(), *(worker for template in warm_templates() for worker in children(template))]
    for server in children(os.getpid()):
        if "tvmake.warm.server" in command(server):
            kill(server)
    assert all(is_alive(process) for process in family)
    kill(tuning.pid)
    tuning.wait()
    eventually(lambda: not any(is_alive(process) for process in family))
    eventually(lambda: not scratch.exists())
