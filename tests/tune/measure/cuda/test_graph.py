"""Timing in a CUDA graph, with a simulated driver (driver.c) instead of NVIDIA's and a GPU."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import te

from tests.tune.measure.kernels import target
from tvmake.tune.measure.cuda.graph import MOST_LAUNCHES, CaptureRefused, Driver, time_in_graph
from tvmake.tune.measure.kernel import GRAPH, Loop
from tvmake.tune.measure.workers.run_worker import time_on_cuda

LOOP = Loop(number=1, repeat=3, min_repeat_ms=20, cooldown_ms=0)
CPU = tvm.cpu()


class StandIn:
    """The library and its counters."""

    def __init__(self, path: Path):
        self._library = ctypes.CDLL(str(path))
        self.driver = Driver(str(path))
        self.launch = self._library.launch

    def set(self, **values: float) -> None:
        for name, value in values.items():
            (ctypes.c_int if isinstance(value, int) else ctypes.c_double).in_dll(self._library, name).value = value

    def count(self, name: str) -> int:
        return ctypes.c_int.in_dll(self._library, name).value

    @property
    def now_us(self) -> float:
        return ctypes.c_double.in_dll(self._library, "now_us").value


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler
    library = tmp_path_factory.mktemp("driver") / "driver.so"
    source = Path(__file__).with_name("driver.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.fixture
def cuda(library: Path, tmp_path: Path) -> StandIn:
    """A separate copy for each test, with initial counters."""
    return StandIn(shutil.copy(library, tmp_path / "driver.so"))


def test_short_kernels_differ_although_each_launch_takes_longer(cuda: StandIn):
    for kernel_us in (3.0, 1.5):
        cuda.set(kernel_us=kernel_us)
        samples = time_in_graph(cuda.launch, CPU, LOOP, cuda.driver)
        assert [sample * 1e6 for sample in samples] == pytest.approx([kernel_us] * 3, rel=0.02)
    assert cuda.count("open_handles") == 0


def test_a_sample_lasts_as_long_as_the_config_says(cuda: StandIn):
    time_in_graph(cuda.launch, CPU, Loop(1, 5, 0, 0), cuda.driver)
    began = cuda.now_us
    time_in_graph(cuda.launch, CPU, Loop(1, 5, 100, 0), cuda.driver)
    assert 5 * 100e3 < cuda.now_us - began < 12 * 100e3


def test_a_sample_has_as_many_runs_as_the_config_says(cuda: StandIn):
    number = 10 * MOST_LAUNCHES
    time_in_graph(cuda.launch, CPU, Loop(number, 4, 0, 0), cuda.driver)
    assert cuda.now_us > 4 * number * 3


def test_long_kernels_are_not_run_more_often_than_that_takes(cuda: StandIn):
    cuda.set(kernel_us=50e3)
    samples = time_in_graph(cuda.launch, CPU, LOOP, cuda.driver)
    assert samples == pytest.approx([0.05] * 3, rel=0.02)
    assert cuda.now_us <= 10 * 50.1e3


def test_a_kernel_that_the_driver_does_not_record_is_refused_with_its_reason(cuda: StandIn):
    cuda.set(refuses=1)
    with pytest.raises(CaptureRefused, match="cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"):
        time_in_graph(cuda.launch, CPU, LOOP, cuda.driver)
    assert cuda.count("open_handles") == 0


def test_a_kernel_that_fails_while_it_is_recorded_is_refused_and_the_capture_ends(cuda: StandIn):
    def run() -> None:
        if cuda.count("is_capturing"):
            raise RuntimeError("Traceback\noperation not permitted when stream is capturing")
        cuda.launch()

    with pytest.raises(CaptureRefused, match=r"^operation not permitted when stream is capturing$"):
        time_in_graph(run, CPU, LOOP, cuda.driver)
    assert cuda.count("is_capturing") == cuda.count("open_handles") == 0


def test_a_kernel_that_fails_is_not_timed_otherwise(cuda: StandIn):
    def run() -> None:
        raise RuntimeError("an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        time_in_graph(run, CPU, LOOP, cuda.driver)
    assert cuda.count("open_handles") == 0


def loaded() -> tuple[Any, list[Any]]:
    """A kernel that is compiled for this machine, with its arguments."""
    x = te.placeholder((64,), "float32", name="x")
    y = te.compute((64,), lambda i: x[i] + x[i], name="y")
    function = te.create_prim_func([x, y]).with_attr("global_symbol", "main")
    arguments = [tvm.runtime.empty((64,), "float32", CPU) for _ in range(2)]
    return tvm.tirx.build(tvm.IRModule({"main": function}), target=target()), arguments


def test_a_record_says_how_the_time_was_taken(cuda: StandIn):
    module, arguments = loaded()
    assert time_on_cuda(module, CPU, arguments, LOOP, cuda.driver)[1] == GRAPH
    cuda.set(refuses=1)
    samples, timer = time_on_cuda(module, CPU, arguments, Loop(1, 2, 0, 0), cuda.driver)
    assert timer.startswith("launches (cuStreamEndCapture: CUDA_ERROR")
    assert len(samples) == 2 and min(samples) > 0
