"""ONNX Runtime's own operators that TVM implements, against ONNX Runtime."""

import numpy as np
import pytest
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, model, random, read, runtime, save
from tvmake.frontend.onnx.domains import CONTRIB, QUANTISED
from tvmake.frontend.onnx.rewrites.contrib_quantized import RULES

INT32 = 6
BERT_INPUTS = {"ids": (INT32, [2, 5]), "segments": (INT32, [2, 5])}
TABLES = {
    "words": random(20, 8), "places": random(10, 8, seed=1), "parts": random(2, 8, seed=2),
    "gamma": random(8, seed=3), "beta": random(8, seed=4),
}  # fmt: skip
CASES = {
    "FastGelu": (["x", "bias"], {"x": (FLOAT, [2, 5, 8])}, {"bias": random(8)}, {}),
    "BiasGelu": (["x", "bias"], {"x": (FLOAT, [2, 5, 8])}, {"bias": random(8)}, {}),
    "Gelu": (["x"], {"x": (FLOAT, [2, 5, 8])}, {}, {}),
    "SkipLayerNormalization": (
        ["x", "skip", "gamma", "beta", "bias"],
        {"x": (FLOAT, [2, 5, 8]), "skip": (FLOAT, [2, 5, 8])},
        {"gamma": random(8), "beta": random(8, seed=1), "bias": random(8, seed=2)},
        {"epsilon": 1e-5},
    ),
    "EmbedLayerNormalization": (["ids", "segments", *TABLES], BERT_INPUTS, TABLES, {"epsilon": 1e-5}),
    "Attention": (
        ["x", "w", "b"],
        {"x": (FLOAT, [2, 5, 8])},
        {"w": random(8, 24), "b": random(24, seed=1)},
        {"num_heads": 2},
    ),
}


def test_every_contrib_operator_that_is_let_through_is_tested():
    assert set(CASES) == set(CONTRIB)


@pytest.mark.parametrize("operator", sorted(CASES))
def test_a_contrib_operator_agrees_with_onnx_runtime(tmp_path, operator):
    names, inputs, constants, values = CASES[operator]
    outputs = ["y", "mask"] if operator == "EmbedLayerNormalization" else ["y"]
    contrib = helper.make_node(operator, names, outputs, domain="com.microsoft", **values)
    made = model([contrib], inputs, ["y"], constants, domains=["com.microsoft"])
    feeds = [
        np.random.default_rng(0).integers(0, 2, shape).astype(np.int32) if kind == INT32 else random(*shape, seed=9)
        for kind, shape in inputs.values()
    ]
    imported = read(save(tmp_path / "m.onnx", made))
    np.testing.assert_allclose(run_compiled(imported, feeds)[0], runtime(made, feeds)[0], rtol=1e-3, atol=1e-4)


def test_every_quantised_operator_that_is_let_through_is_replaced():
    assert set(RULES) == set(QUANTISED)
