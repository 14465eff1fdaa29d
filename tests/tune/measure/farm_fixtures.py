"""A farm that a module's tests share: the module takes this as a plugin and says in SERVERS how many devices there are."""

from collections.abc import Iterator

import pytest

from tests.tune.measure.farm import Farm, wait_patiently


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of the transport that suit a busy machine."""
    wait_patiently(monkeypatch)


@pytest.fixture(scope="module")
def shared_farm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    made = Farm(tmp_path_factory.mktemp("farm"), servers=request.module.SERVERS)
    yield made
    made.close()


@pytest.fixture
def farm(request: pytest.FixtureRequest, shared_farm: Farm) -> Farm:
    """All servers there, whatever the last test did to them."""
    shared_farm.restore(request.module.SERVERS)
    return shared_farm
