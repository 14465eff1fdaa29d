"""Kernels run once on a device behind a tracker, to look at what they compute."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.tune.measuring import kernels
from tests.tune.measuring.farm import HOST, Farm
from tests.tune.measuring.processes import eventually
from tvmake.config.device import DeviceConfig
from tvmake.errors import DeviceError
from tvmake.quick_tvm import tvm
from tvmake.tune.kernel_runner import KernelFailure, RPCKernelRunner, kernel_runner
from tvmake.tune.run_kernel import Tensor

OUTPUT = [Tensor(dtype="float32", shape=(64,))]
ARGUMENT = np.zeros(16, "float32")


@pytest.fixture(scope="module")
def shared_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    made = Farm(tmp_path_factory.mktemp("farm"), servers=0)
    yield made
    made.close()


@pytest.fixture
def farm(shared_farm: Farm) -> Farm:
    """One server, all there, whatever the last test did to it."""
    shared_farm.restore(1)
    return shared_farm


def runner(farm: Farm, **config: object) -> RPCKernelRunner:
    given = {"via": "rpc", "tracker": f"{HOST}:{farm.port}", "key": farm.key, "wait_s": 1, **config}
    made = kernel_runner("phone", DeviceConfig(**given), kernels.target(), "g++")
    assert isinstance(made, RPCKernelRunner)
    return made


def library(directory: Path, candidate) -> Path:
    path = directory / "kernel.so"
    tvm.tirx.build(candidate.module, target=kernels.target()).export_library(str(path))
    return path


def test_a_kernels_outputs_come_back(farm: Farm, tmp_path: Path):
    x = np.arange(64, dtype="float32")
    (y,) = runner(farm).run(library(tmp_path, kernels.add(0)), [x], OUTPUT, fill=0xFF)
    assert np.array_equal(y, x + x)


def test_what_a_kernel_leaves_unwritten_shows(farm: Farm, tmp_path: Path):
    idle = kernels.calling(0, ("getpid",))
    (y,) = runner(farm).run(library(tmp_path, idle), [], [Tensor(dtype="float32", shape=(16,))], fill=0xFF)
    assert np.isnan(y).all()


def test_a_kernel_that_raises_an_error_is_its_own_fault(farm: Farm, tmp_path: Path):
    with pytest.raises(KernelFailure, match=r"it failed: .*shape"):
        runner(farm).run(library(tmp_path, kernels.add(0)), [np.zeros(7, "float32")], OUTPUT, fill=0)


def test_a_kernel_that_hangs_is_ended_and_frees_its_server(farm: Farm, tmp_path: Path):
    with pytest.raises(KernelFailure, match="it did not end within 2 s"):
        runner(farm, session_timeout_s=2).run(library(tmp_path, kernels.hanging(0)), [ARGUMENT], [], fill=0)
    x = np.ones(64, "float32")
    assert runner(farm, wait_s=60).run(library(tmp_path, kernels.add(0)), [x], OUTPUT, fill=0)[0][0] == 2


def test_a_kernel_that_takes_two_devices_down_is_wrong(farm: Farm, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    farm.restore(2)
    # A kernel's crash ends TVM's Python server for good.
    with pytest.raises(
        KernelFailure, match=r"a device was lost each of the 2 times it ran \(it closed the connection\)"
    ):
        runner(farm).run(library(tmp_path, kernels.crashing(0)), [ARGUMENT], [], fill=0)
    assert "while a kernel was checked; it is tried once more" in capsys.readouterr().err


def test_a_kernel_whose_device_is_lost_runs_on_another(farm: Farm, tmp_path: Path):
    (lost,) = farm.servers
    started = tmp_path / "started"
    kernel = library(tmp_path, kernels.calling(0, ("mkdir", str(started), 511), ("usleep", 700_000)))

    def lose() -> None:
        eventually(started.is_dir)
        farm.lose(lost)
        farm.add()

    loser = threading.Thread(target=lose)
    loser.start()
    assert runner(farm, wait_s=60).run(kernel, [ARGUMENT], [], fill=0) == []
    loser.join()


def test_without_a_device_nothing_is_said_of_the_kernel(farm: Farm, tmp_path: Path):
    farm.lose(*farm.servers)
    with pytest.raises(DeviceError, match="no server with key 'phone'"):
        runner(farm).run(library(tmp_path, kernels.add(0)), [np.ones(64, "float32")], OUTPUT, fill=0)
