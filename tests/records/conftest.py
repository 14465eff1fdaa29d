import pytest

from tvmake.records.store import RecordStore


@pytest.fixture
def store(tmp_path) -> RecordStore:
    return RecordStore(tmp_path / "store")


@pytest.fixture
def another_store(tmp_path) -> RecordStore:
    return RecordStore(tmp_path / "another")
