import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cache.examples import Run, point_at
from tests.s3 import bucket, s3, url  # noqa: F401
from tvmake.cache import settings
from tvmake.config.cache import CacheConfig


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
    """A directory in memory if possible: thousands of small files are written."""
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
