import uuid

import pytest

from tests.requirements import require
from tvmake.records.store import RecordStore

BUCKET = "tvmake-records"


@pytest.fixture
def store(tmp_path) -> RecordStore:
    return RecordStore(tmp_path / "store")


@pytest.fixture
def another_store(tmp_path) -> RecordStore:
    return RecordStore(tmp_path / "another")


@pytest.fixture(scope="session")
def s3():
    try:
        import s3fs  # noqa: F401
        from moto.server import ThreadedMotoServer
    except ImportError:
        require(False, "s3fs and moto[server]")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        import boto3

        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield f"s3://{BUCKET}"
    server.stop()


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
