"""Parameters that are written and mapped one at a time."""

from pathlib import Path

import numpy as np
import pytest
import tvm

from tvmake.artifact.tensor_file import numpy_dtype
from tvmake.artifact.weights.file_format import ALIGNMENT, LARGE
from tvmake.artifact.weights.tensors import Deferred, load_params, save_params
from tvmake.errors import InputError

DTYPES = ["float32", "float16", "bfloat16", "float8_e4m3fn", "int64", "int8", "uint8", "bool"]


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return (np.arange(np.prod(shape)) % 7).reshape(shape).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_any_size_are_read_as_written(tmp_path: Path, dtype: str):
    written = {"größe": values(dtype, ()), "small": values(dtype, (3, 5)), "large": values(dtype, (31, LARGE))}
    save_params(written, tmp_path / "m.params")
    read = load_params(tmp_path / "m.params")
    assert list(read) == list(written)
    for name, expected in written.items():
        assert str(read[name].dtype) == dtype
        np.testing.assert_array_equal(read[name].numpy(), expected)


def test_runtimes_of_tvm_read_the_file(tmp_path: Path):
    written = {"a": values("float32", (5,)), "b": values("int8", (LARGE + 1,)), "c": values("float16", (LARGE,))}
    save_params(written, tmp_path / "m.params")
    read = tvm.runtime.load_param_dict_from_file(str(tmp_path / "m.params"))
    for name, expected in written.items():
        np.testing.assert_array_equal(read[name].numpy(), expected)


def test_files_that_tvm_wrote_are_read(tmp_path: Path):
    written = {"a": values("float32", (5,)), "b": values("int8", (LARGE + 1,)), "c": values("bfloat16", (LARGE,))}
    tensors = {name: tvm.runtime.tensor(value) for name, value in written.items()}
    tvm.runtime.save_param_dict_to_file(tensors, str(tmp_path / "m.params"))
    for name, value in load_params(tmp_path / "m.params").items():
        np.testing.assert_array_equal(value.numpy(), written[name])


def test_large_tensors_are_mapped_where_kernels_can_read_them(tmp_path: Path):
    save_params({"a": values("int8", (LARGE + 1,)), "b": values("float32", (LARGE,))}, tmp_path / "m.params")
    assert all(value.data_ptr() % ALIGNMENT == 0 for value in load_params(tmp_path / "m.params").values())


def test_a_write_to_a_mapped_tensor_does_not_reach_the_file(tmp_path: Path):
    save_params({"a": values("float32", (LARGE,))}, tmp_path / "m.params")
    before = (tmp_path / "m.params").read_bytes()
    tensor = load_params(tmp_path / "m.params")["a"]
    tensor.copyfrom(np.full(LARGE, 9, "float32"))
    assert (tensor.numpy() == 9).all()
    assert (tmp_path / "m.params").read_bytes() == before


def test_tensors_outlive_the_mapping(tmp_path: Path):
    save_params({"a": values("float32", (LARGE,)), "b": values("float32", (LARGE,))}, tmp_path / "m.params")
    kept = load_params(tmp_path / "m.params")["a"]
    (tmp_path / "m.params").unlink()
    np.testing.assert_array_equal(kept.numpy(), values("float32", (LARGE,)))


def test_a_deferred_parameter_is_computed_after_those_before_it_are_written(tmp_path: Path):
    alive: list[str] = []

    def compute() -> "tvm.runtime.Tensor":
        alive.append("b")
        return tvm.runtime.tensor(values("float32", (LARGE,)))

    params = {"a": values("float32", (3,)), "b": Deferred((LARGE,), "float32", compute)}
    assert not alive
    save_params(params, tmp_path / "m.params")
    assert alive == ["b"]
    np.testing.assert_array_equal(load_params(tmp_path / "m.params")["b"].numpy(), values("float32", (LARGE,)))


def test_equal_parameters_give_equal_bytes(tmp_path: Path):
    params = {"a": values("float32", (LARGE,)), "b": values("bool", (7,))}
    save_params(params, tmp_path / "1.params")
    save_params({name: tvm.runtime.tensor(value) for name, value in params.items()}, tmp_path / "2.params")
    assert (tmp_path / "1.params").read_bytes() == (tmp_path / "2.params").read_bytes()


@pytest.mark.parametrize("content", [b"", b"x", bytes(100), b"\xff" * 4096])
def test_what_are_no_parameters_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "m.params").write_bytes(content)
    with pytest.raises(InputError, match="not a parameter file"):
        load_params(tmp_path / "m.params")
