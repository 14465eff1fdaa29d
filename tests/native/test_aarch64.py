"""The programs for 64-bit Arm, emulated: the same outputs as here, and the same server."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.device.configs import device_config
from tests.native import devices
from tests.native.devices import ROOT, request_file, run
from tests.native.emulated import EMULATOR, require_emulator
from tests.native.servers import NativeFarm
from tests.native.test_runner import inputs_file, outputs_of
from tvmake.artifact.package import MANIFEST, REQUIRED, WEIGHTS, pack, read_manifest
from tvmake.config.benchmark import Measurement
from tvmake.device.connect import connect
from tvmake.device.interface import RunRequest, RunResult
from tvmake.device.rpc.files import PlainFiles
from tvmake.native import aarch64

TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}
"""Of float32 results whose sums are taken in another order."""


def test_the_wheels_are_those_of_the_lock():
    lock = (ROOT / "envs" / "requirements.lock").read_text()
    for wheel in aarch64.WHEELS:
        entry = re.search(rf"^{wheel.name}==(\S+)((?: \\\n +--hash=\S+)+)", lock, re.M)
        assert entry is not None and entry[1] == wheel.version
        assert f"--hash=sha256:{wheel.sha256}" in entry[2]


def test_another_version_of_tvm_is_one_clear_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(aarch64.metadata, "version", lambda name: "0.28.0")
    with pytest.raises(
        aarch64.MachineError, match=r"apache-tvm 0\.28\.0 is installed; tvmake knows the runtime of 0\.27"
    ):
        aarch64.libraries()


def test_an_unreachable_index_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(aarch64.MachineError, match="pip cannot download apache-tvm: ") as caught:
        aarch64.libraries()
    assert str(caught.value).count("\n") == 1
    assert not [entry for entry in (tmp_path / "native").iterdir() if entry.is_dir()]


@pytest.fixture(scope="module")
def emulated() -> list[str]:
    """What comes before a program."""
    require_emulator()
    return EMULATOR


@pytest.fixture(scope="module")
def arm(emulated: list[str]) -> Path:
    return devices.programs("aarch64")


@pytest.fixture(scope="module")
def digits(emulated: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's network, for this machine in ``here`` and for a board in ``arm``; with inputs."""
    directory = tmp_path_factory.mktemp("digits")
    images = np.random.default_rng(0).random((3, 1, 1, 8, 8)).astype("float32")
    inputs_file(directory / "in.npz", *images, name="image")
    net = devices.digits(directory)
    devices.package_for(net, directory / "here")
    devices.package_for(net, directory / "arm", devices.CORTEX)
    return directory


@pytest.mark.long
def test_the_runner_gives_the_outputs_of_this_machine(
    emulated: list[str], arm: Path, programs: Path, digits: Path, tmp_path: Path
):
    request = request_file(
        tmp_path, {"samples": 3, "repeat_first": True, "measurement": {"warmup": 1, "repeat": 3, "profile_ops": True}}
    )
    for name, program in (("here", [str(programs / "tvmake-run")]), ("arm", [*emulated, str(arm / "tvmake-run")])):
        positions = ("--outputs", tmp_path / f"{name}.npz", "--result", tmp_path / f"{name}.json")
        done = run(program, "--package", digits / name, "--request", request, "--inputs", digits / "in.npz", *positions)
        assert (done.returncode, done.stderr) == (0, "")
    here, there = (outputs_of(tmp_path / f"{name}.npz", 4, "logits") for name in ("here", "arm"))
    for ours, theirs in zip(here, there, strict=True):
        np.testing.assert_allclose(theirs, ours, **TOLERANCE)
    assert not np.allclose(there[0], there[1]) and np.array_equal(there[0], there[3])
    result = RunResult.model_validate_json((tmp_path / "arm.json").read_bytes())
    assert "aarch64" in result.fingerprint.os and len(result.timing.samples_ms) == 3 and result.timing.op_runs


@pytest.mark.long
def test_code_for_this_machine_is_named_there(emulated: list[str], arm: Path, digits: Path):
    done = run([*emulated, str(arm / "tvmake-run")], "--package", digits / "here")
    assert done.returncode == 3 and done.stderr.startswith(f"error: {digits}/here: mod.so does not load"), done


@pytest.fixture(scope="module")
def board(emulated: list[str], arm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NativeFarm]:
    farm = NativeFarm([*emulated, str(arm / "tvmake-serve")], tmp_path_factory.mktemp("board"))
    yield farm
    farm.close()


@pytest.mark.long
def test_the_server_serves_packages(board: NativeFarm, programs: Path, digits: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    pack({name: digits / "arm" / name for name in REQUIRED}, tmp_path / "package.tar")
    inputs = digits / "in.npz"
    here = ["--package", digits / "here", "--inputs", inputs, "--outputs", tmp_path / "here.npz", "--runs", 1]
    assert run([str(programs / "tvmake-run")], *here).returncode == 0
    device = connect("board", device_config(via="rpc", tracker=f"127.0.0.1:{board.port}", key=board.key, threads=1))
    measured = RunRequest(samples=1, measurement=Measurement(warmup=1, repeat=3))
    result = device.execute(device.push(tmp_path / "package.tar"), measured, inputs, tmp_path / "there.npz")
    assert len(result.timing.samples_ms) == 3
    (ours,), (theirs,) = (outputs_of(tmp_path / f"{name}.npz", 1, "logits") for name in ("here", "there"))
    np.testing.assert_allclose(theirs, ours, **TOLERANCE)


@pytest.mark.long
def test_parameters_hash_there_as_here(board: NativeFarm, digits: Path):
    session = board.connect()
    manifest = read_manifest((digits / "arm" / MANIFEST).read_bytes(), "test")
    (weights,) = PlainFiles(session, "board").have_parameters(
        digits / "arm" / WEIGHTS, WEIGHTS, [manifest.parameters[0].name], session.cpu(0)
    )
    assert weights.numpy().size


@pytest.mark.long
def test_the_server_outlives_its_sessions(board: NativeFarm):
    for _ in range(3):
        board.connect().get_function("runtime.NumThreads")
    assert board.server.log().count("session of") >= 6
