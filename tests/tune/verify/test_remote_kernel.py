"""Kernels run once on a device behind a tracker, and their outputs are checked."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.device.configs import device_config
from tests.patience import HANG_S
from tests.tune.measure import kernels
from tests.tune.measure.farm import HOST, Farm
from tests.tune.measure.processes import eventually
from tvmake.codegen.run_kernel import Tensor
from tvmake.errors import DeviceError
from tvmake.tune.verify.kernel_runner import KernelFailure, RPCKernelRunner, kernel_runner

pytest_plugins = "tests.tune.measure.farm_fixtures"
pytestmark = pytest.mark.usefixtures("patience")

SERVERS = 1
OUTPUT = [Tensor(dtype="float32", shape=(64,))]
ARGUMENT = np.zeros(16, "float32")


def runner(farm: Farm, **config: object) -> RPCKernelRunner:
    config = {"via": "rpc", "tracker": f"{HOST}:{farm.port}", "key": farm.key, "wait_s": 1, **config}
    runner = kernel_runner("phone", device_config(**config), kernels.target(), "g++")
    assert isinstance(runner, RPCKernelRunner)
    return runner


def library(directory: Path, candidate) -> Path:
    path = directory / "kernel.so"
    tvm.tirx.build(candidate.module, target=kernels.target()).export_library(str(path))
    return path


def test_a_kernels_outputs_come_back(farm: Farm, tmp_path: Path):
    x = np.arange(64, dtype="float32")
    (y,) = runner(farm).run(library(tmp_path, kernels.add(0)), [x], OUTPUT, fill=0xFF)
    assert np.array_equal(y, x + x)


def test_unwritten_outputs_are_visible(farm: Farm, tmp_path: Path):
    idle = kernels.calling(0, ("getpid",))
    (y,) = runner(farm).run(library(tmp_path, idle), [], [Tensor(dtype="float32", shape=(16,))], fill=0xFF)
    assert np.isnan(y).all()


def test_an_error_of_a_kernel_is_the_kernels_failure(farm: Farm, tmp_path: Path):
    with pytest.raises(KernelFailure, match=r"it failed: .*shape"):
        runner(farm).run(library(tmp_path, kernels.add(0)), [np.zeros(7, "float32")], OUTPUT, fill=0)


def test_a_kernel_that_hangs_is_ended_and_frees_its_server(farm: Farm, tmp_path: Path):
    with pytest.raises(KernelFailure, match="it did not end within 5 s"):
        runner(farm, session_timeout_s=5).run(library(tmp_path, kernels.hanging(0)), [ARGUMENT], [], fill=0)
    x = np.ones(64, "float32")
    assert runner(farm, wait_s=HANG_S).run(library(tmp_path, kernels.add(0)), [x], OUTPUT, fill=0)[0][0] == 2


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
    started, gate = tmp_path / "started", tmp_path / "gate"
    # Whoever opens a named pipe to read waits until it is opened to write.
    os.mkfifo(gate)
    kernel = library(tmp_path, kernels.calling(0, ("mkdir", str(started), 511), ("open", str(gate), os.O_RDONLY)))
    opened: list[int] = []

    def lose() -> None:
        eventually(started.is_dir)
        farm.lose(lost)
        opened.append(os.open(gate, os.O_RDWR))
        farm.add()

    loser = threading.Thread(target=lose)
    loser.start()
    assert runner(farm, wait_s=HANG_S).run(kernel, [ARGUMENT], [], fill=0) == []
    loser.join()
    os.close(opened[0])


def test_without_a_device_a_kernel_gets_no_verdict(farm: Farm, tmp_path: Path):
    farm.lose(*farm.servers)
    eventually(lambda: farm.tracker.servers() == [])
    with pytest.raises(DeviceError, match="no server with key 'phone'"):
        runner(farm).run(library(tmp_path, kernels.add(0)), [np.ones(64, "float32")], OUTPUT, fill=0)
