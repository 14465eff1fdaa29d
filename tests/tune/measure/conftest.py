"""Measurers for small kernels."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.requirements import require
from tests.tune.measure.blocking_compiler import BlockingCompiler
from tests.tune.measure.kernels import target
from tvmake.config.tuning import TrialMeasurement
from tvmake.process.forkserver.pool import no_warm_servers, warm_servers
from tvmake.stages.preload import PRELOADS
from tvmake.tune.measure.local import LocalMeasurer

QUICK = TrialMeasurement(number=1, repeat=2, min_repeat_ms=0, timeout_s=HANG_S, build_timeout_s=HANG_S)
"""Limits that only a hang reaches."""


@pytest.fixture(autouse=True, scope="module")
def own_leases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Time slots without other jobs."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("TVMAKE_HOME", str(home))
        yield home


@pytest.fixture(scope="module")
def warm(own_leases: Path) -> Iterator[None]:
    """Warm servers of this process, as in `tvmake make`: measurers start without importing TVM."""
    require(hasattr(os, "pidfd_open"), "a Linux kernel with pidfd_open")
    with warm_servers(PRELOADS, idle_s=HANG_S):
        yield


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> BlockingCompiler:
    """The driver of ``measurer``."""
    return BlockingCompiler(tmp_path_factory.mktemp("driver") / "driver")


@pytest.fixture(scope="module")
def measurer(own_leases: Path, compiler: BlockingCompiler) -> Iterator[LocalMeasurer]:
    """Two builders, one thread, started without warm servers."""
    with no_warm_servers():
        measurer = LocalMeasurer(target(), QUICK, 2, threads=1, env={"ASKED": "yes"}, driver=compiler.path)
    yield measurer
    measurer.close()
