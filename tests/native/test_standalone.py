"""Programs that need nothing but a kernel, emulated without a library of any system: the same outputs as here."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.device.configs import device_config
from tests.device.transport.adb_stand_in import AdbServer
from tests.native import devices
from tests.native.devices import request_file, run
from tests.native.emulated import SAYS_AARCH64
from tests.native.servers import NativeFarm
from tests.native.test_runner import inputs_file, outputs_of
from tests.requirements import need, require
from tvmake.artifact.elf import read_library
from tvmake.artifact.package import REQUIRED, pack
from tvmake.config.benchmark import Measurement
from tvmake.config.target import TargetConfig
from tvmake.device.connect import connect
from tvmake.device.interface import RunRequest, RunResult
from tvmake.native import ndk
from tvmake.native.bundle import bundle
from tvmake.native.zig import zig_command

pytestmark = pytest.mark.long

EMULATOR = ["qemu-aarch64-static"]
"""Without a directory of libraries: nothing of another system is there."""

TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}


@pytest.fixture(scope="module")
def static() -> Path:
    need("cmake", "qemu-aarch64-static")
    require(zig_command(), "zig: pip install ziglang")
    return bundle("aarch64", "musl")


@pytest.fixture(scope="module")
def digits(static: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's network for this machine, and for Android and glibc as zig links them; with inputs."""
    directory = tmp_path_factory.mktemp("digits")
    images = np.random.default_rng(0).random((3, 1, 1, 8, 8)).astype("float32")
    inputs_file(directory / "in.npz", *images, name="image")
    net = devices.digits(directory)
    devices.package_for(net, directory / "here")
    for name, system in (("android", "android"), ("glibc", "gnu")):
        target = TargetConfig(kind="llvm", mtriple=f"aarch64-linux-{system}", mcpu="cortex-a53", toolchain="zig")
        devices.package_for(net, directory / name, target)
    return directory


def test_the_programs_ask_for_no_library(static: Path):
    assert {file.name for file in static.iterdir()} == {"tvmake-run", "tvmake-serve", "bundle.json"}
    for name in ("tvmake-run", "tvmake-serve"):
        program = read_library(static / name)
        assert (program.machine, program.needed, program.imports) == ("aarch64", (), ())
    listed = subprocess.run(
        ["readelf", "-lW", static / "tvmake-run"], capture_output=True, text=True, check=True
    ).stdout
    assert "INTERP" not in listed and "DYNAMIC" not in listed


@pytest.mark.parametrize("linked_for", ["android", "glibc"])
def test_the_runner_gives_the_outputs_of_this_machine(
    static: Path, programs: Path, digits: Path, tmp_path: Path, linked_for: str
):
    request = request_file(
        tmp_path, {"samples": 3, "repeat_first": True, "measurement": {"warmup": 1, "repeat": 3, "profile_ops": True}}
    )
    for name, program in (
        ("here", [str(programs / "tvmake-run")]),
        (linked_for, [*EMULATOR, str(static / "tvmake-run")]),
    ):
        positions = ("--outputs", tmp_path / f"{name}.npz", "--result", tmp_path / f"{name}.json")
        done = run(program, "--package", digits / name, "--request", request, "--inputs", digits / "in.npz", *positions)
        assert (done.returncode, done.stderr) == (0, "")
    here, there = (outputs_of(tmp_path / f"{name}.npz", 4, "logits") for name in ("here", linked_for))
    for ours, theirs in zip(here, there, strict=True):
        np.testing.assert_allclose(theirs, ours, **TOLERANCE)
    result = RunResult.model_validate_json((tmp_path / f"{linked_for}.json").read_bytes())
    assert len(result.timing.samples_ms) == 3 and result.timing.op_runs


def test_errors_of_the_runtime_arrive_as_messages(static: Path, digits: Path):
    done = run([*EMULATOR, str(static / "tvmake-run")], "--package", digits / "here")
    assert done.returncode == 3 and "mod.so does not load: it is code for x86-64" in done.stderr
    done = run([*EMULATOR, str(static / "tvmake-run")], "--package", digits / "android", "--device", "opencl")
    assert done.returncode == 3 and done.stderr.startswith("error: device 'opencl': there is none")


@pytest.fixture(scope="module")
def board(static: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeFarm]:
    farm = NativeFarm([*EMULATOR, str(static / "tvmake-serve")], tmp_path_factory.mktemp("board"))
    yield farm
    farm.close()


def test_the_server_serves_packages(board: NativeFarm, programs: Path, digits: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    pack({name: digits / "android" / name for name in REQUIRED}, tmp_path / "package.tar")
    inputs = digits / "in.npz"
    here = ["--package", digits / "here", "--inputs", inputs, "--outputs", tmp_path / "here.npz", "--runs", 1]
    assert run([str(programs / "tvmake-run")], *here).returncode == 0
    device = connect("board", device_config(via="rpc", tracker=f"127.0.0.1:{board.port}", key=board.key, threads=1))
    measured = RunRequest(samples=1, measurement=Measurement(warmup=1, repeat=3))
    result = device.execute(device.push(tmp_path / "package.tar"), measured, inputs, tmp_path / "there.npz")
    assert len(result.timing.samples_ms) == 3
    (ours,), (theirs,) = (outputs_of(tmp_path / f"{name}.npz", 1, "logits") for name in ("here", "there"))
    np.testing.assert_allclose(theirs, ours, **TOLERANCE)


RUNS_ARM = """
while case "$1" in *=*) true;; *) false;; esac; do export "$1"; shift; done
case "$1" in */tvmake-*) exec qemu-aarch64-static "$@";; *) exec "$@";; esac
"""
"""An ``env`` for phones whose programs are 64-bit Arm's."""


def test_a_phone_gets_them_without_another_word(
    static: Path, digits: Path, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    need("adb")
    server = AdbServer(tmp_path / "adb")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    for name in (*ndk.VARIABLES, *ndk.SDK_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    phone = server.add("ARM")
    phone.says("uname", SAYS_AARCH64)
    phone.says("env", RUNS_ARM)
    try:
        pack({name: digits / "android" / name for name in REQUIRED}, tmp_path / "package.tar")
        device = connect("phone", device_config(via="adb", serial="ARM"))
        request = RunRequest(samples=3)
        device.execute(device.push(tmp_path / "package.tar"), request, digits / "in.npz", tmp_path / "there.npz")
        names = {file.name for file in (phone.root / "data/local/tmp").rglob("tvmake-*")}
        assert names == {"tvmake-run", "tvmake-serve"}
    finally:
        server.close()
    here = [
        "--package",
        digits / "here",
        "--inputs",
        digits / "in.npz",
        "--outputs",
        tmp_path / "here.npz",
        "--samples",
        3,
    ]
    assert run([str(programs / "tvmake-run")], *here).returncode == 0
    for ours, theirs in zip(
        *(outputs_of(tmp_path / f"{at}.npz", 3, "logits") for at in ("here", "there")), strict=True
    ):
        np.testing.assert_allclose(theirs, ours, **TOLERANCE)


def test_the_server_outlives_its_sessions_and_fills_tensors_for_tuning(board: NativeFarm):
    for _ in range(3):
        board.connect().get_function("tvm.contrib.random.random_fill_for_measure")
    assert (
        board.server.log().count("session of") >= 3 and "without TVM's contributed functions" not in board.server.log()
    )
