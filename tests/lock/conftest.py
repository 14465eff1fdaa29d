"""A locked run in a directory of its own."""

import shutil
from pathlib import Path

import pytest

from tests.lock.made import BEST, fill, lock, make_run, plan_of
from tests.provenance.examples import make_library
from tests.records.examples import record
from tvmake.plan.plan import Plan
from tvmake.records.store import RecordStore


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A real shared library."""
    return make_library(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, library: bytes) -> Path:
    """A finished run, its records and its ``run.lock``, for tests to copy: ``run`` and ``home`` in a directory."""
    directory = tmp_path_factory.mktemp("finished")
    (directory / "run").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory / "run")
        patch.setenv("TVMAKE_HOME", str(directory / "home"))
        plan = make_run(directory / "run", library)
        fill(RecordStore(), record(0, ms=1.0), BEST)
        lock(plan)
    return directory


@pytest.fixture
def store(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordStore:
    """The user's store, with the run's records."""
    shutil.copytree(finished / "home", tmp_path / "home")
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    return RecordStore()


@pytest.fixture
def run(finished: Path, tmp_path: Path, store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The finished run in the working directory."""
    shutil.copytree(finished / "run", tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    return plan_of()
