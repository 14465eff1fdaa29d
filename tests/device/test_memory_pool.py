"""Memory of a process that runs a package on many shapes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import WITHOUT_TORCH
from tests.codegen.conftest import dimensions_net
from tests.native import stateful
from tests.native.devices import package_for
from tests.patience import HANG_S

RUN = """
import sys
from pathlib import Path
import numpy as np
from tvmake.artifact.package import read_manifest
from tvmake.device.local.worker import LoadedPackage
from tvmake.device.memory_pool import MemoryPool

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

place = Path(sys.argv[1])
package = LoadedPackage(place, read_manifest((place / "mod.json").read_bytes(), "mod.json"))
if sys.argv[2] == "unlimited":
    MemoryPool.prepare = lambda self, arguments: None

def run(length):
    inputs = [np.ones((1, length, size), "float32") for size in (1, 4)]
    if sys.argv[2] == "set inputs":
        package.set_inputs(inputs)
        package.run()
        return package.outputs()
    return package.outputs_of(inputs)

run(8000)
alone = resident_mb()
for length in range(7000, 8000, 25):
    run(length)
print(resident_mb() - alone)
"""
"""One position takes 1 KB between the matmuls: 40 shapes of 7 MB and more."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pool")
    return package_for(dimensions_net(directory, {}), directory / "package")


def growth_mb(package: Path, how: str) -> float:
    command = [sys.executable, "-c", WITHOUT_TORCH + RUN, str(package), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.parametrize("how", ["one call", "set inputs"])
def test_memory_does_not_grow_with_the_number_of_shapes(how: str, package: Path):
    assert growth_mb(package, how) < 80


CACHE = """
package.outputs_of([np.ones((1, 1, 1024), "float32")])
alone = resident_mb()
for _ in range(500):
    package.outputs_of([np.ones((1, 1, 1024), "float32")])
print(resident_mb() - alone)
"""


def test_it_does_not_grow_with_the_lengths_of_a_cache(tmp_path: Path):
    script = WITHOUT_TORCH + RUN.partition("def run(")[0] + CACHE
    command = [sys.executable, "-c", script, str(stateful.cache(tmp_path, 1024)), ""]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 50  # with every length it would be 500 MB
