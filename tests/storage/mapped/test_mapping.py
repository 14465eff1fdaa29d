"""Mapped parameters of which one at a time is in memory."""

from mmap import PAGESIZE
from pathlib import Path

import numpy as np
import pytest

from tests.artifact.weights.memory import MB, growth_mb
from tvmake.artifact.weights.tensors import load_params, release_tensor, save_params
from tvmake.storage.mapped.mapping import map_file, release

TENSORS, TENSOR_MB = 32, 8


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parameters of 256 MiB."""
    path = tmp_path_factory.mktemp("weights") / "m.params"
    random = np.random.default_rng(0)
    save_params({f"w{number}": random.integers(0, 255, TENSOR_MB * MB, "uint8") for number in range(TENSORS)}, path)
    return path


SETUP = """
from pathlib import Path
from tvmake.artifact.weights.tensors import load_params, save_params
params = load_params(Path({file!r}))
"""


def test_parameters_are_written_again_with_one_of_them_in_memory(file: Path, tmp_path: Path):
    copy = tmp_path / "copy.params"
    grown = growth_mb(SETUP.format(file=str(file)), f"save_params(params, Path({str(copy)!r}))")
    assert grown < 3 * TENSOR_MB
    assert copy.read_bytes() == file.read_bytes()


def test_memory_is_measured_where_all_parameters_are_read(file: Path):
    work = "sum(bytes(param.numpy().data)[0] for param in params.values())"
    assert growth_mb(SETUP.format(file=str(file)), work) > TENSORS * TENSOR_MB * 0.9


def test_released_values_are_read_again(file: Path):
    tensor = load_params(file)["w3"]
    before = tensor.numpy()
    release_tensor(tensor)
    np.testing.assert_array_equal(tensor.numpy(), before)


def test_other_memory_is_not_released():
    array = np.arange(1 << 20)
    release(array.ctypes.data, array.nbytes)
    np.testing.assert_array_equal(array, np.arange(1 << 20))


def test_a_part_of_a_mapping_is_released_with_its_pages_only(tmp_path: Path):
    (tmp_path / "bytes").write_bytes(bytes(3 * PAGESIZE))
    content = map_file(tmp_path / "bytes")
    content[:] = 1
    release(content[PAGESIZE + 900 :].ctypes.data, 10)
    assert content[0] == content[-1] == 1 and content[PAGESIZE + 900] == 0
