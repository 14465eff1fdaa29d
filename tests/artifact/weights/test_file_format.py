"""What mod.params holds, told without reading its values."""

from pathlib import Path

import numpy as np
import pytest
import tvm

from tvmake.artifact.weights.file_format import stored_tensors

PARAMETERS = {
    "weight": np.ones((3, 4), "float32"),
    "größe": np.zeros((), "int64"),
    "none": np.zeros((0, 2), "float16"),
    "last": np.ones(5, "int8"),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tensors = {name: tvm.runtime.tensor(value) for name, value in PARAMETERS.items()}
    tvm.runtime.save_param_dict_to_file(tensors, str(tmp_path / "mod.params"))
    return tmp_path / "mod.params"


def test_names_are_those_that_tvm_wrote(file: Path):
    assert [tensor.name for tensor in stored_tensors(file)] == list(PARAMETERS)


def test_every_cut_is_refused(file: Path):
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="cut short"):
            stored_tensors(file)


def test_another_file_is_refused(file: Path):
    file.write_bytes(b"weights" * 100)
    with pytest.raises(ValueError, match="does not begin"):
        stored_tensors(file)
