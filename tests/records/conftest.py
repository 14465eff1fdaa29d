import uuid

import pytest

from tests.s3 import s3_server
from tvmake.records.store import RecordStore

BUCKET = "tvmake-records"


@pytest.fixture
def store(tmp_path) -> RecordStore:
    return RecordStore(tmp_path / "store")


@pytest.fixture
def another_store(tmp_path) -> RecordStore:
    return RecordStore(tmp_path / "another")


@pytest.fixture(scope="session")
def bucket():
    with s3_server(BUCKET) as bucket:
        yield bucket


@pytest.fixture
def s3(bucket, monkeypatch) -> str:
    return bucket.lead(monkeypatch)


@pytest.fixture(params=["directory", "memory", "s3"])
def url(request, tmp_path) -> str:
    unique = uuid.uuid4().hex
    match request.param:
        case "directory":
            return str(tmp_path / "nfs" / "records")
        case "memory":
            return f"memory://{unique}/records"
        case _:
            return f"{request.getfixturevalue('s3')}/{unique}/records"
