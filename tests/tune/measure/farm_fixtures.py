"""A farm shared by a module's tests: the module loads this plugin and sets the number of devices in SERVERS."""

from collections.abc import Iterator

import pytest

from tests.tune.measure.farm import Farm, wait_patiently


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of the transport that suit a busy machine."""
    wait_patiently(monkeypatch)


@pytest.fixture(scope="module")
def shared_farm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    farm = Farm(tmp_path_factory.mktemp("farm"), servers=request.module.SERVERS)
    yield farm
    farm.close()


@pytest.fixture
def farm(request: pytest.FixtureRequest, shared_farm: Farm) -> Farm:
    """All servers, restored after the previous test."""
    shared_farm.restore(request.module.SERVERS)
    return shared_farm
