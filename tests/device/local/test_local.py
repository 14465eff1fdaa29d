"""This machine as a device: digests first, a process per run, crashes in one line."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import textwrap
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.conftest import Transformed, dynamic_net, static_net  # noqa: F401  # fixtures
from tests.codegen.test_build import built
from tests.device.configs import ENDLESS, device_config
from tests.device.vouched import stored, vouch
from tests.native.devices import share_builds
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.process.test_pool import servers
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS, pack
from tvmake.artifact.tensor_file import member, read_array, write_array
from tvmake.config.benchmark import Measurement
from tvmake.device.connect import connect
from tvmake.device.interface import RunRequest
from tvmake.device.local.device import LocalDevice
from tvmake.errors import DeviceError, InputError
from tvmake.process.forkserver.pool import warm_servers
from tvmake.stages.preload import PRELOADS

forked = pytest.mark.usefixtures("shared_servers")


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    share_builds(tmp_path / "home")
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "packages"


@pytest.fixture(scope="session")
def package(static_net: Transformed, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    return packed(static_net, tmp_path_factory.mktemp("package"))


def packed(net: Transformed, directory: Path) -> Path:
    root = built(net, directory / "built")
    pack({name: root / name for name in (LIBRARY, MANIFEST, WEIGHTS)}, directory / "package.tar")
    return directory / "package.tar"


def inputs_file(path: Path, *samples: np.ndarray) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for number, sample in enumerate(samples):
            write_array(archive, member("input", "x", number), sample)
    return path


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, 3, 8, 8)).astype("float32")


def test_a_timing_without_its_memory_is_forked(package: Path, tmp_path: Path):
    device, inputs = local(), inputs_file(tmp_path / "in.npz", image())
    deployment = device.push(package)
    timed = RunRequest(samples=1, want_outputs=False, measurement=Measurement(repeat=3))
    with warm_servers(PRELOADS):
        assert device.execute(deployment, timed, inputs, None).timing.peak_memory_bytes
        assert servers() == {}
        forked = timed.model_copy(update={"wants_memory": False})
        assert len(device.execute(deployment, forked, inputs, None).timing.samples_ms) == 3
        assert list(servers().values()) == ["runtime"]


def local(**config: object) -> LocalDevice:
    device = connect("local", device_config(**config))
    assert isinstance(device, LocalDevice)
    return device


def test_a_package_is_pushed_by_digest_run_and_timed(package: Path, tmp_path: Path):
    ballast = np.ones(400 << 20, "uint8")
    device = local(threads=1)
    deployment = device.push(package)
    assert device.push(package) == deployment
    how = Measurement(warmup=2, repeat=4, number=3, profile_ops=True)
    result = device.execute(
        deployment,
        RunRequest(samples=2, repeat_first=True, measurement=how),
        inputs_file(tmp_path / "in.npz", image(0), image(1)),
        tmp_path / "out.npz",
    )
    with zipfile.ZipFile(tmp_path / "out.npz") as archive:
        first, second, again = (read_array(archive, member("output", "y", number)) for number in range(3))
    assert first.shape == (1, 6) and first.sum() == pytest.approx(1, abs=1e-5)
    assert not np.allclose(first, second) and np.array_equal(first, again)
    timing = result.timing
    assert len(timing.samples_ms) == 4 and len(timing.warmup_ms) == 2 and timing.number == 3
    assert all(value > 0 for value in [*timing.samples_ms, timing.load_ms, timing.first_run_ms])
    assert timing.peak_memory_bytes >= timing.baseline_memory_bytes > 0
    assert timing.peak_memory_bytes < ballast.nbytes, "it is the run's own, not that of the process that asks for it"
    assert any("conv2d" in op.name for op in timing.op_runs)
    assert result.fingerprint.details["threads"] == "1"
    assert result.fingerprint == device.fingerprint(), "TVM has bound its threads in the meantime"


@forked
def test_a_dynamic_package_runs_on_any_extent(dynamic_net: Transformed, tmp_path: Path):  # noqa: F811
    device = local()
    deployment = device.push(packed(dynamic_net, tmp_path))
    sample = np.ones((2, 3, 4), "float32")
    given = inputs_file(tmp_path / "in.npz", sample)
    device.execute(deployment, RunRequest(samples=1), given, tmp_path / "out.npz")
    with zipfile.ZipFile(tmp_path / "out.npz") as archive:
        assert read_array(archive, member("output", "y", 0)).shape == (36, 5)


def test_min_repeat_raises_the_number_of_runs(package: Path, tmp_path: Path):
    device = local()
    asked = RunRequest(samples=1, measurement=Measurement(repeat=2, warmup=0, min_repeat_ms=20))
    timing = device.execute(device.push(package), asked, inputs_file(tmp_path / "in.npz", image()), None).timing
    assert timing.number > 1


@forked
@pytest.mark.parametrize("name", [LIBRARY, WEIGHTS, MANIFEST])
@pytest.mark.parametrize("damage", ["truncate", "flip"])
def test_a_deployed_file_that_changed_is_not_loaded(package: Path, tmp_path: Path, name: str, damage: str):
    device = local()
    deployment = device.push(package)
    file = Path(deployment.location) / name
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2] if damage == "truncate" else data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    with pytest.raises(InputError, match=r"truncated|altered|damaged"):
        device.execute(deployment, RunRequest(samples=1), inputs_file(tmp_path / "in.npz", image()), tmp_path / "o.npz")


def remade(package: Path, directory: Path, library: bytes | None = None, **changes: object) -> Path:
    """A package that is whole, with another library or manifest."""
    from tvmake.artifact.package import unpack

    directory.mkdir()
    unpack(package, directory)
    if library is not None:
        (directory / LIBRARY).write_bytes(library)
    vouch(directory, **changes)
    pack({name: directory / name for name in (LIBRARY, MANIFEST, WEIGHTS)}, directory / "package.tar")
    return directory / "package.tar"


def lines_of(error: BaseException) -> list[str]:
    return [line.strip() for line in str(error).splitlines()]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the library is said to be for another processor")
def test_a_package_for_another_processor_is_not_deployed(package: Path, tmp_path: Path):
    for_arm = remade(package, tmp_path / "arm", b"\x7fELF\x02\x01" + bytes(12) + b"\xb7\x00" + bytes(100))
    with pytest.raises(DeviceError) as caught:
        local().push(for_arm)
    assert lines_of(caught.value) == [
        "device 'local': mod.so is code for aarch64, and the device is x86-64 (uname -m: x86_64)",
        "compile for this device: the target's mtriple and mcpu, and cc that links for it",
    ]


def test_a_package_of_another_tvm_is_not_deployed(package: Path, tmp_path: Path):
    from tvmake.artifact.manifest import Component

    older = remade(package, tmp_path / "older", components=[Component(name="apache-tvm", version="0.26.0")])
    for _ in range(2):  # also when it is in the store
        with pytest.raises(InputError) as caught:
            local().push(older)
        problem, remedy = lines_of(caught.value)
        assert problem.startswith(f"{older}: built with TVM 0.26.0, but devices get the runtime of TVM ")
        assert remedy.startswith("rebuild it here with `tvmake make`")


@forked
def test_a_library_that_the_loader_refuses_is_one_clear_line(package: Path, tmp_path: Path):
    device = local()
    deployment = device.push(package)
    library = (Path(deployment.location) / LIBRARY).read_bytes()
    broken = device.push(remade(package, tmp_path / "broken", library[:64] + bytes(len(library) - 64)))
    with pytest.raises(DeviceError) as caught:
        device.execute(broken, RunRequest(samples=1), inputs_file(tmp_path / "in.npz", image()), None)
    problem, remedy = lines_of(caught.value)
    assert problem.startswith("device 'local': ") and "mod.so" in problem
    assert remedy == "compile for this device: the target's mtriple and mcpu, and cc that links for it"


@forked
@pytest.mark.parametrize(
    "sample", [np.zeros((1, 3, 8, 9), "float32"), np.zeros((1, 3, 8), "float32"), np.zeros((1, 3, 8, 8), "float64")]
)
def test_inputs_that_do_not_fit_are_named(package: Path, tmp_path: Path, sample: np.ndarray):
    device = local()
    with pytest.raises(InputError, match=r"input 'x' is .* the package takes float32\[1, 3, 8, 8\]"):
        device.execute(device.push(package), RunRequest(samples=1), inputs_file(tmp_path / "in.npz", sample), None)


def test_a_run_that_takes_too_long_is_ended_with_all_it_started(package: Path, tmp_path: Path):
    device = local(timeout_s=3)
    with pytest.raises(DeviceError, match="did not end within 3 s"):
        device.execute(device.push(package), ENDLESS, inputs_file(tmp_path / "in.npz", image()), None)
    listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listed


@forked
def test_generated_code_that_crashes_is_one_clear_line(package: Path, tmp_path: Path):
    """A library whose code is replaced by a crash, with a manifest that vouches for it."""
    device = local()
    deployment = device.push(package)
    directory = tmp_path / "crashing"
    shutil.copytree(deployment.location, directory)
    (directory / "crash.c").write_text("__attribute__((constructor)) void crash(void) { *(volatile int *)0 = 1; }")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", directory / LIBRARY, directory / "crash.c"], check=True)
    vouch(directory)
    directory = stored(directory)
    with pytest.raises(DeviceError, match="SIGSEGV"):
        device.execute(
            deployment.model_copy(update={"location": str(directory)}),
            RunRequest(samples=1),
            inputs_file(tmp_path / "in.npz", image()),
            None,
        )


def test_a_second_measurement_waits_for_the_first(tmp_path: Path):
    script = textwrap.dedent(
        """
        import sys, time
        from tvmake.device.sharing.lease import lease
        with lease("local"):
            print("in", time.monotonic(), flush=True)
            time.sleep(0.5)
            print("out", time.monotonic(), flush=True)
        """
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=os.environ)
        for _ in range(3)
    ]
    spans = sorted(
        tuple(float(line.split()[1]) for line in process.communicate()[0].splitlines()) for process in running
    )
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_a_killed_measurement_frees_the_device():
    script = "from tvmake.device.sharing.lease import lease\nimport time\nwith lease('local'):\n print('in', flush=True)\n time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=os.environ)
    assert holder.stdout is not None and holder.stdout.readline() == "in\n"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    from tvmake.device.sharing.lease import lease

    with lease("local"):
        pass
