"""Lookup tables, such as embeddings, are stored in 8 bits."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx import models as onnx_models
from tests.stages.test_calibrate import calibrated
from tests.transform.nets import Transformed, imported, run, transformed
from tvmake.artifact import stage_json
from tvmake.artifact.calibration import Calibration, TensorRange
from tvmake.artifact.module_files import save_module
from tvmake.artifact.weights.tensors import save_params
from tvmake.config.dataset import DatasetConfig
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest

TABLE = onnx_models.random(300, 32, seed=1) * np.exp2(np.arange(300) % 7)[:, None].astype(np.float32)
"""Rows of sizes far apart."""
INDICES = np.array([[0, 299, 6, -1]], np.int64)


def language_model() -> onnx.ModelProto:
    """Rows of a table, and their products with the same table: ``ids`` [1, 4] to ``y`` [1, 4, 300]."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Tanh", ["rows"], ["bounded"]),
        helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["bounded", "turned"], ["y"]),
    ]
    return onnx_models.model(nodes, {"ids": (onnx.TensorProto.INT64, [1, 4])}, ["y"], {"table": TABLE})


def lookup() -> onnx.ModelProto:
    """``ids`` [1, 4] to their rows, scaled by a network of one product: ``y`` [1, 4, 32]."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "unit"], ["y"]),
    ]
    constants = {"table": TABLE, "unit": np.eye(32, dtype=np.float32)}
    return onnx_models.model(nodes, {"ids": (onnx.TensorProto.INT64, [1, 4])}, ["y"], constants)


def held_bytes(made: Transformed) -> int:
    return sum(value.numpy().nbytes for value in made[1].values())


@pytest.mark.parametrize("base", ["int8_weights", "int4_weights"])
def test_rows_keep_a_scale_of_their_own(base):
    made = transformed(imported(lookup()), PrecisionConfig(base=base))
    rows = TABLE[INDICES]
    found = run(made, INDICES)
    steps = np.abs(rows).max(axis=-1, keepdims=True) / 127
    assert np.all(np.abs(found - rows) <= (0.5 if base == "int8_weights" else 0.6) * steps + 1e-6)
    assert held_bytes(made) < TABLE.nbytes / 3


def test_a_table_in_never_stays_in_float():
    made = transformed(imported(lookup()), PrecisionConfig(base="int8_weights", never=["take"]))
    assert held_bytes(made) > TABLE.nbytes
    assert np.allclose(run(made, INDICES), TABLE[INDICES], rtol=1e-6)


def test_an_int8_network_stores_its_table_in_8_bits(tmp_path: Path):
    made = imported(language_model())
    save_module(made.module, tmp_path / "model.json")
    save_params(made.params, tmp_path / "model.params")
    stage_json.save(made.signature, tmp_path / "signature.json")
    np.savez(tmp_path / "ids.npz", ids=np.arange(300).reshape(75, 4))
    data = DatasetConfig(path=str(tmp_path / "ids.npz"), images="ids", input="ids", labels=None)
    found = calibrated(tmp_path, tmp_path, data)
    assert (
        found.coverage() == "int8: all convolutions and matmuls use integers (1); rows of 1 table are stored in 8 bits"
    )
    request = TransformRequest(precision=PrecisionConfig(base="int8"))
    small = transform(made.module, made.params, request, found)
    whole = transformed(made)
    assert held_bytes(small) < 0.33 * held_bytes(whole)  # the table and the product's weight, which is the table turned
    expected = run(whole, INDICES)
    assert np.mean((run(small, INDICES) - expected) ** 2) < 1e-3 * np.mean(expected**2)


@pytest.mark.parametrize(("precision", "dtype"), [("int8", "int8"), ("float32", "float32")])
def test_tables_are_stored_in_8_bits_if_auto_chooses_int8_layers(precision, dtype):
    model, ranges = imported(lookup()), [TensorRange(name="rows", low=-512, high=512, lowest=-512, highest=512)]
    found = Calibration(data="dataset", samples=1, method="minmax", ranges=ranges, products=1)
    request = TransformRequest(precision=PrecisionConfig(base="auto"))
    made = transform(model.module, model.params, request, found, (precision,))
    assert [str(value.dtype) for value in made[1].values() if tuple(value.shape) == TABLE.shape] == [dtype]
    assert np.abs(run(made, INDICES) - TABLE[INDICES]).max() < 0.02 * np.abs(TABLE[INDICES]).max()
