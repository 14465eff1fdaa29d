"""Values that a stage computes, in temporary files."""

import os
import tempfile

import numpy as np
import pytest

from tests.artifact.weights.memory import MB, growth_mb
from tvmake.storage.mapped.mapping import is_mapped
from tvmake.storage.mapped.spilling import LARGE, SEGMENT_BYTES, spill


def drawn(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count, np.float32)


def test_large_arrays_keep_their_values_types_and_shapes():
    arrays = [
        drawn(LARGE, seed).reshape(-1, 16).astype(dtype) for seed, dtype in enumerate(("float16", "float32", "int8"))
    ]
    spilled = [spill(array) for array in arrays]
    for array, copy in zip(arrays, spilled, strict=True):
        assert is_mapped(copy) and copy.dtype == array.dtype
        np.testing.assert_array_equal(copy, array)


def test_small_arrays_stay_in_memory():
    array = drawn(LARGE // 4 - 1)
    assert spill(array) is array


def test_arrays_larger_than_a_file_get_one_of_their_size():
    array = np.zeros(SEGMENT_BYTES + 1, np.uint8)
    array[-1] = 7
    assert spill(array)[-1] == 7


def test_memory_has_one_array_at_a_time():
    setup = "import numpy as np\nfrom tvmake.storage.mapped.spilling import spill"
    assert growth_mb(setup, f"arrays = [spill(np.full({8 * MB}, seed, np.uint8)) for seed in range(32)]") < 3 * 8


def test_files_have_no_names(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spill(drawn(LARGE))
    assert not list(tmp_path.iterdir())


def test_arrays_stay_in_memory_without_a_directory_for_files(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    array = np.zeros(SEGMENT_BYTES, np.uint8)  # no file has room for it
    spill(drawn(LARGE))
    assert spill(array) is array


def test_a_fork_does_not_change_the_arrays_of_its_parent():
    first = spill(drawn(LARGE))
    child = os.fork()
    if child == 0:
        spill(drawn(LARGE, seed=1))
        os._exit(0)
    os.waitpid(child, 0)
    second = spill(drawn(LARGE, seed=2))
    np.testing.assert_array_equal(first, drawn(LARGE))
    np.testing.assert_array_equal(second, drawn(LARGE, seed=2))
