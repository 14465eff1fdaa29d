"""Native programs, and packages for them: made once for all tests and kept between runs by digest."""

import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.codegen.conftest import Transformed, _transformed
from tests.codegen.test_build import built
from tests.patience import HANG_S
from tests.requirements import need
from tvmake.config.requests.building import BuildRequest
from tvmake.config.target import TargetConfig
from tvmake.native.bundle import bundle
from tvmake.native.compile import build
from tvmake.native.parts import find_built, root

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "resources" / "digits.onnx"

CORTEX = TargetConfig(kind="llvm", mtriple="aarch64-linux-gnu", mcpu="cortex-a53", cc="aarch64-linux-gnu-g++")


HOME = str(Path.home())
"""The user's, before a test sets another."""


@contextmanager
def usual_home() -> Iterator[None]:
    """The home where builds of native parts are kept between runs, whatever home a test has set."""
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("TVMAKE_HOME", raising=False)
        environment.setenv("HOME", HOME)
        yield


def programs(machine: str = platform.machine(), with_opencl: bool = False) -> Path:
    """A directory with the programs."""
    need("cmake", "g++")
    with usual_home():
        return bundle(machine, with_opencl=with_opencl)


def share_builds(home: Path) -> None:
    """Have a test's own home hold the usual builds of native parts, which take a minute to make."""
    with usual_home():
        usual = root()
    usual.mkdir(parents=True, exist_ok=True)
    home.mkdir(parents=True, exist_ok=True)
    (home / "native").symlink_to(usual)


def abi_library() -> Path:
    """The library for other programs, kept like them."""
    with usual_home():
        return find_built("abi") or build("abi")


def digits(directory: Path) -> Transformed:
    return _transformed(DIGITS, directory)


def package_for(net: Transformed, directory: Path, target: TargetConfig | None = None) -> Path:
    """An unpacked package."""
    return built(
        net, directory, BuildRequest(model="net", precision="float32", target_name="t", target=target or TargetConfig())
    )


def run(program: list[str], *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*program, *map(str, arguments)]
    env = {"PATH": os.environ["PATH"], "TVM_NUM_THREADS": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, env=env, check=False)


def request_file(directory: Path, request: object) -> Path:
    """A request in a file of its own."""
    handle, name = tempfile.mkstemp(dir=directory, suffix=".json")
    os.close(handle)
    Path(name).write_text(request if isinstance(request, str) else json.dumps(request))
    return Path(name)
