"""Shared by the tests of the native programs."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.codegen.conftest import bounded_net, dynamic_net, static_net  # noqa: F401  # fixtures
from tests.native import devices


@pytest.fixture(autouse=True, scope="module")
def _usual_home() -> Iterator[None]:
    """Builds are kept where they always are, whatever home tests before these have set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TVMAKE_HOME", raising=False)
        yield


@pytest.fixture(scope="session")
def programs() -> Path:
    """The native programs for this machine, in one directory."""
    return devices.programs()


@pytest.fixture(scope="session")
def package(static_net, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """An unpacked package that no test changes."""
    directory = devices.package_for(static_net, tmp_path_factory.mktemp("native") / "package")
    for name in ("mod.so", "mod.json", "mod.params"):
        (directory / name).chmod(0o444)
    return directory


@pytest.fixture(scope="session")
def library(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package library, with TVM's libraries beside it."""
    directory = tmp_path_factory.mktemp("abi")
    for file in programs.glob("libtvm*.so"):
        shutil.copy(file, directory)
    return Path(shutil.copy(devices.abi_library(), directory))
