"""Shared stores for tests: directories, file systems behind fsspec, and moto's S3 server on the loopback address."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.requirements import need_module


@dataclass(frozen=True)
class Bucket:
    """A bucket, and the environment that directs clients to its server."""

    url: str
    environment: dict[str, str]

    def lead(self, patch: pytest.MonkeyPatch) -> str:
        """Direct this process to the server until the patch is undone; returns the URL."""
        for name, value in self.environment.items():
            patch.setenv(name, value)
        return self.url


@contextmanager
def s3_server(name: str) -> Iterator[Bucket]:
    """An empty bucket."""
    need_module("s3fs", "pip install --group test")
    need_module("moto", "pip install --group test")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        environment = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        bucket = Bucket(f"s3://{name}", environment)
        with pytest.MonkeyPatch.context() as patch:
            bucket.lead(patch)
            import boto3

            boto3.client("s3").create_bucket(Bucket=name)
        yield bucket
    finally:
        server.stop()


@pytest.fixture(scope="session")
def bucket() -> Iterator[Bucket]:
    """A server for all tests of a process; each test uses its own names."""
    with s3_server("tvmake") as bucket:
        yield bucket


@pytest.fixture
def s3(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> str:
    """The bucket's URL, with this process directed to its server."""
    return bucket.lead(monkeypatch)


@pytest.fixture(params=["directory", "memory", "fsspec", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a shared store that does not exist yet."""
    name = uuid.uuid4().hex
    match request.param:
        case "directory":
            return str(tmp_path / "nfs" / name)
        case "memory":
            return f"memory://{name}/store"
        case "fsspec":  # a file system, not an object store
            return f"local://{tmp_path}/{name}/store"
        case _:
            return f"{request.getfixturevalue('s3')}/{name}/store"
