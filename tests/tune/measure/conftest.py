"""Measurers for small kernels."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.tune.measure.kernels import target
from tvmake.config.tuning import TrialMeasurement
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
def measurer(own_leases: Path) -> Iterator[LocalMeasurer]:
    """Two builders, one thread."""
    made = LocalMeasurer(target(), QUICK, 2, threads=1, env={"ASKED": "yes"})
    yield made
    made.close()
