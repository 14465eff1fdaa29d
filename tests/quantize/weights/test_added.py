"""Large constants that are added are stored in integers if these are accurate enough."""

import numpy as np
import pytest
from onnx import helper

from tests.decibels import decibels
from tests.frontend.onnx import models as onnx_models
from tests.transform.nets import Transformed, imported, run, transformed
from tvmake.quantize.precision import PrecisionConfig
from tvmake.quantize.weights.added import round_rows

POSITIONS = onnx_models.random(96, 64, seed=1)
X = onnx_models.random(1, 96, 64, seed=2)

BIASED_MASK = np.where(np.tri(96, dtype=bool), onnx_models.random(96, 96, seed=3), np.float32(-100))
"""A mask that is added to values of another magnitude."""


def network(table: np.ndarray) -> Transformed:
    """A table, added to ``x``, and a product."""
    nodes = [helper.make_node("Add", ["x", "table"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    constants = {"table": table, "w": onnx_models.random(table.shape[-1], 8, seed=4)}
    return imported(onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [1, *table.shape])}, ["y"], constants))


def largest(made: Transformed) -> str:
    return max((value.numpy() for value in made[1].values()), key=lambda value: value.size).dtype.name


@pytest.mark.parametrize(
    ("base", "dtype", "least"),
    [("int8_weights", "int16", 80), ("int4_weights", "int8", 35), ("float32", "float32", 120)],
)
def test_position_embeddings_have_the_precision_of_the_weights(base: str, dtype: str, least: float):
    made = transformed(network(POSITIONS), PrecisionConfig(base=base, never=["matmul"] if base != "float32" else []))
    assert largest(made) == dtype
    assert decibels(run(transformed(network(POSITIONS)), X), run(made, X)) > least


def test_added_constants_of_operators_in_never_stay_in_float():
    precision = PrecisionConfig(base="int4_weights", never=["add"])
    assert largest(transformed(network(POSITIONS), precision)) == "float32"


def test_a_mask_added_to_small_values_stays_in_float():
    assert largest(transformed(network(BIASED_MASK), PrecisionConfig(base="int4_weights"))) == "float32"


def queries() -> Transformed:
    """A decoder's access to a memory: constants multiplied with computed keys."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["k"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["queries", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "x"], ["y"]),
    ]
    inputs = {"x": (onnx_models.FLOAT, [1, 96, 64])}
    return imported(onnx_models.model(nodes, inputs, ["y"], {"queries": onnx_models.random(1, 80, 64, seed=6)}))


@pytest.mark.parametrize(("base", "dtype", "least"), [("int4_weights", "int8", 30), ("int8_weights", "int16", 75)])
def test_queries_are_stored_in_integers(base: str, dtype: str, least: float):
    made = transformed(queries(), PrecisionConfig(base=base))
    assert largest(made) == dtype
    assert decibels(run(transformed(queries()), X), run(made, X)) > least
    assert largest(transformed(queries(), PrecisionConfig(base="int4_weights", never=["matmul"]))) == "float32"


@pytest.mark.parametrize(
    "values", [np.where(np.tri(96, dtype=bool), 0, -1e9), np.zeros((96, 96))], ids=["mask", "zeros"]
)
def test_few_values_are_exact(values: np.ndarray):
    held = round_rows(values.astype(np.float32), "int8")
    assert held is not None
    np.testing.assert_allclose(held[0] * held[1], values, rtol=1e-6)


@pytest.mark.parametrize("values", [np.full((96, 96), np.inf), np.zeros((8, 8))], ids=["infinities", "small"])
def test_unsuitable_constants_stay_in_float(values: np.ndarray):
    assert round_rows(values.astype(np.float32), "int8") is None


def test_rows_too_short_for_a_scale_share_one():
    integers, scales = round_rows(onnx_models.random(1, 40, 14, 14, seed=5), "int8") or (None, None)
    assert integers is not None
    assert scales is not None
    assert scales.shape == (1, 40, 1, 1)
