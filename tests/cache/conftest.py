import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cache.examples import Run, point_at
from tests.s3 import s3_server
from tvmake.cache import settings
from tvmake.config.cache import CacheConfig

BUCKET = "tvmake-cache"


@pytest.fixture(autouse=True)
def _nobodys_cache(monkeypatch):
    """What a test leaves in the environment ends with it, and what a person has there does not count."""
    for name in (settings.VARIABLE, settings.SECRET_VARIABLE):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """A directory that steps use as their cache."""
    point_at(monkeypatch, CacheConfig(where=str(tmp_path / "cache")))
    return tmp_path / "cache"


@pytest.fixture
def quick() -> Iterator[Path]:
    """A directory in memory where there is one: thousands of small files are written."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
        yield Path(directory)


@pytest.fixture
def run(tmp_path) -> Run:
    """A stage that has not run."""
    return Run(tmp_path / "one")


@pytest.fixture
def again(tmp_path) -> Run:
    """The same in another checkout."""
    return Run(tmp_path / "elsewhere" / "two")


@pytest.fixture(scope="session")
def bucket():
    with s3_server(BUCKET) as bucket:
        yield bucket


@pytest.fixture
def s3(bucket, monkeypatch) -> str:
    return bucket.lead(monkeypatch)


@pytest.fixture(params=["directory", "memory", "sftp-like", "s3"])
def url(request, tmp_path) -> str:
    """An address that nothing lies at yet."""
    unique = uuid.uuid4().hex
    match request.param:
        case "directory":
            return str(tmp_path / "nfs" / "cache")
        case "memory":
            return f"memory://{unique}/cache"
        case "sftp-like":  # a file system that is no object store, behind fsspec
            return f"local://{tmp_path}/{unique}/cache"
        case _:
            return f"{request.getfixturevalue('s3')}/{unique}/cache"
