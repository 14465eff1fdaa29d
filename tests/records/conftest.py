import pytest

from tests.s3 import bucket, s3, url  # noqa: F401
from tvmake.records.store import RecordStore


@pytest.fixture
def store(tmp_path) -> RecordStore:
    return RecordStore(tmp_path / "store")


@pytest.fixture
def another_store(tmp_path) -> RecordStore:
    return RecordStore(tmp_path / "another")
