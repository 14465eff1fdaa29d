"""Widths of packed weights follow from another package's manifest, by the content of weights."""

from pathlib import Path

import numpy as np
import pytest

from tests.artifact.test_package import manifest_of
from tvmake.artifact.manifest import Manifest, Parameter
from tvmake.artifact.weights.contents import distinct_bytes
from tvmake.artifact.weights.packed_widths import read_widths
from tvmake.artifact.weights.tensors import save_params
from tvmake.errors import InputError

RANDOM = np.random.default_rng(0)
TABLE, FIRST, LAST = (RANDOM.random((64, 96), "float32") for _ in range(3))


def owner(*packed: tuple[str, tuple[int, ...]]) -> Manifest:
    parameters = [Parameter(name=name, shape=shape, dtype="float32") for name, shape in packed]
    return manifest_of({}).model_copy(update={"parameters": parameters})


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """The parameters of two networks: one matrix is the same under another name, one has only the same name."""
    save_params({"table": TABLE, "first": FIRST, "last": LAST}, tmp_path / "owner.params")
    save_params({"w0": FIRST, "last": LAST + 1, "embedding": TABLE, "bias": LAST[0]}, tmp_path / "own.params")
    return tmp_path / "owner.params", tmp_path / "own.params"


def test_equal_weights_have_the_width_that_the_other_package_chose(files: tuple[Path, Path]):
    known = owner(("table", (64, 96)), ("first_packed", (3, 64, 32)), ("last_packed", (6, 64, 16)))
    assert read_widths(known, *files) == {"w0": 32}


def test_products_of_one_lane_are_an_axis_more(files: tuple[Path, Path]):
    assert read_widths(owner(("first_packed", (3, 16, 32, 4))), *files) == {"w0": 32}


def test_the_first_of_several_packings_counts(files: tuple[Path, Path]):
    assert read_widths(owner(("first_packed", (6, 64, 16)), ("first_packed2", (3, 64, 32))), *files) == {"w0": 16}


@pytest.mark.parametrize("shape", [(64, 96), (6, 64, 160), (4, 1, 4, 32, 12), (6, 64, 8)])
def test_other_layouts_have_no_width(files: tuple[Path, Path], shape: tuple[int, ...]):
    assert read_widths(owner(("first_packed", shape)), *files) == {}


def test_a_damaged_file_of_parameters_is_refused(files: tuple[Path, Path]):
    files[1].write_bytes(files[1].read_bytes()[:-1])
    with pytest.raises(InputError, match="not a parameter file, or damaged"):
        read_widths(owner(("first_packed", (3, 64, 32))), *files)


def test_distinct_bytes_count_equal_tensors_once(files: tuple[Path, Path]):
    assert distinct_bytes(files) == 4 * (4 * 64 * 96 + 96)
