"""A locked run in a directory of its own."""

from pathlib import Path

import pytest

from tests.lock.made import BEST, fill, lock, make_run
from tests.provenance.examples import make_library
from tests.records.examples import record
from tvmake.plan.plan import Plan
from tvmake.records.store import RecordStore


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A real shared library."""
    return make_library(tmp_path_factory.mktemp("library"))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordStore:
    """The user's store."""
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    return RecordStore()


@pytest.fixture
def run(tmp_path: Path, store: RecordStore, library: bytes, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A finished run in the working directory, with its records and ``run.lock``."""
    directory = tmp_path / "run"
    directory.mkdir()
    monkeypatch.chdir(directory)
    plan = make_run(directory, library)
    fill(store, record(0, ms=1.0), BEST)
    lock(plan)
    return plan
