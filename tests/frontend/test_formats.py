"""Messages if the library that reads a format cannot be loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tvmake.frontend.formats import unloaded_library


@pytest.fixture
def broken_torch(tmp_path: Path) -> dict[str, str]:
    """Environment variables of a process whose torch lacks one of its libraries."""
    package = tmp_path / "libraries" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise OSError('libcudart.so.13: cannot open shared object file')\n")
    return {**os.environ, "PYTHONPATH": str(package.parent)}


@pytest.mark.parametrize("source", ["network.pt2", "zoo:resnet18"])
def test_a_library_with_a_missing_dependency_is_distinguished_from_a_damaged_file(source, broken_torch, tmp_path):
    (tmp_path / "network.pt2").write_bytes(b"PK\x03\x04")
    command = [sys.executable, "-c", "import tvmake.cli; tvmake.cli.main()", "init", source, "-o", "made.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env=broken_torch, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 3
    problem, remedy = done.stderr.splitlines()
    assert "'torch' is installed and cannot be loaded: libcudart.so.13" in problem
    assert "install it again" in remedy


def test_an_error_in_tvmakes_own_modules_is_not_attributed_to_a_library():
    with pytest.raises(ImportError):
        unloaded_library("network.pt2", "pt2", ImportError("cannot import name", name="tvmake.frontend"))
