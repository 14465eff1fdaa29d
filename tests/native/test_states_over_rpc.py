"""Packages with states over RPC: the states stay on the device, whichever server runs there."""

import gc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.device.configs import device_config
from tests.device.local.test_local import inputs_file
from tests.device.rpc.test_rpc import outputs_of
from tests.native import stateful
from tests.native.servers import NativeFarm
from tests.patience import HANG_S
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.tune.measure.farm import HOST, Farm
from tvmake.artifact.package import REQUIRED, pack
from tvmake.config.benchmark import Measurement
from tvmake.device.connect import connect
from tvmake.device.interface import RunRequest

pytestmark = pytest.mark.usefixtures("shared_servers")

SAMPLES, STEPS = 50, 20


@pytest.fixture(scope="module", params=["native", "python"])
def farm(request: pytest.FixtureRequest, programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """A tracker with tvmake's server, or with TVM's own in Python."""
    directory = tmp_path_factory.mktemp(request.param)
    is_native = request.param == "native"
    farm = NativeFarm([str(programs / "tvmake-serve")], directory) if is_native else Farm(directory, servers=1)
    yield farm
    gc.collect()
    farm.close()


def sums(samples: list[np.ndarray]) -> list[np.ndarray]:
    """Of each sequence's samples until each of them."""
    starts = [number - number % STEPS for number in range(len(samples))]
    return [np.sum(samples[start : number + 1], axis=0) for number, start in enumerate(starts)]


def delays(samples: list[np.ndarray]) -> list[np.ndarray]:
    def at(number: int, before: int) -> np.ndarray:
        return samples[number - before] if number % STEPS >= before else np.zeros_like(samples[0])

    return [at(number, 0) + 10 * at(number, 1) + 100 * at(number, 2) for number in range(len(samples))]


@pytest.mark.parametrize(
    ("network", "shape", "expected"),
    [
        (stateful.accumulator, (1, 4), sums),
        (stateful.cache, (1, 1, 2), lambda samples: [value[0] for value in sums(samples)]),
        (stateful.cache_in_place, (1, 1, 2), lambda samples: [value[0] for value in sums(samples)]),
        (stateful.delay, (1, 4096), delays),
    ],
)
def test_fifty_steps_in_sequences_of_twenty_give_what_they_should(
    network: Callable[[Path], Path],
    shape: tuple[int, ...],
    expected: Callable[[list[np.ndarray]], list[np.ndarray]],
    farm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    package = network(tmp_path)
    pack({name: package / name for name in REQUIRED}, tmp_path / "package.tar")
    random = np.random.default_rng(1)
    samples = [random.integers(-9, 9, shape).astype("float32") for _ in range(SAMPLES)]
    inputs = inputs_file(tmp_path / "in.npz", *samples)
    where = device_config(via="rpc", tracker=f"{HOST}:{farm.port}", key=farm.key, wait_s=HANG_S, threads=1)
    device = connect("phone", where)
    request = RunRequest(
        samples=SAMPLES,
        steps=STEPS,
        repeat_first=True,
        measurement=Measurement(warmup=2, repeat=3),
        timed_steps=STEPS,
    )
    timing = device.execute(device.push(tmp_path / "package.tar"), request, inputs, tmp_path / "out.npz").timing
    assert len(timing.samples_ms) == 3
    assert [len(steps) for steps in timing.steps_ms] == [STEPS] * 3
    with zipfile.ZipFile(tmp_path / "out.npz") as archive:
        assert len(archive.namelist()) == SAMPLES + 1
    *outputs, again = outputs_of(tmp_path / "out.npz", SAMPLES + 1)
    for number, (output, value) in enumerate(zip(outputs, expected(samples), strict=True)):
        assert np.array_equal(output, value), number
    assert np.array_equal(again, outputs[0])
