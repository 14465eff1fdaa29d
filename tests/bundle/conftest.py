"""A locked run in a directory of its own, and a key to sign with."""

import subprocess
from pathlib import Path

import pytest

from tests.lock.conftest import finished, library, run, store

__all__ = ["finished", "library", "run", "store"]
"""Fixtures, the same as for locks."""


@pytest.fixture(scope="session")
def ssh_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key of OpenSSH's, as ``own`` and ``own.pub``."""
    directory = tmp_path_factory.mktemp("keys")
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / "own")]
    subprocess.run(command, check=True, capture_output=True)
    return directory
