"""A package that needs no TVM to be made, and keys."""

import subprocess
from pathlib import Path

import pytest

from tests.provenance.examples import make_library, make_package
from tests.requirements import need


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A real shared library."""
    return make_library(tmp_path_factory.mktemp("library"))


@pytest.fixture
def package(tmp_path: Path, library: bytes) -> Path:
    """A package with its component list."""
    return make_package(tmp_path / "made" / "package.tar", library)


@pytest.fixture(scope="session")
def ssh_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with keys as ``ssh-keygen`` makes them: ``own``, ``other``, ``locked`` (passphrase), ``rsa``, ``ecdsa``."""
    need("ssh-keygen")
    directory = tmp_path_factory.mktemp("keys")
    for name, kind, passphrase in (
        ("own", "ed25519", ""),
        ("other", "ed25519", ""),
        ("locked", "ed25519", "secret words"),
        ("rsa", "rsa", ""),
        ("ecdsa", "ecdsa", ""),
    ):
        command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", f"{name}@test", "-f", str(directory / name)]
        subprocess.run(command, check=True, capture_output=True)
    return directory
