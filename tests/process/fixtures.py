"""Fixtures for tests of any room whose subject is not how processes start."""

import pytest

from tests.process import shared
from tvmake.process.forkserver.client import DIRECTORY


@pytest.fixture
def shared_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warm servers, as in `tvmake make`: a process for TVM is a fork, and does not import it again."""
    monkeypatch.setenv(DIRECTORY, shared.directory())
