"""Operators whose axes or sizes are inputs are refused with the inputs to fix, and are right with these fixed."""

import numpy as np
import pytest
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, model, random, read, refusal, runtime, save
from tvmake.frontend.options import InputSpec

node = helper.make_node

CASES = {
    "reduction": (
        node("ReduceSum", ["x", "axes"], ["y"], keepdims=0),
        [4, 5, 6],
        {"axes": [0, 2]},
        "Only constant axes",
    ),
    "slice": (
        node("Slice", ["x", "zeros", "ends", "axes"], ["y"]),
        [4, 5, 6],
        {"axes": [0, 2]},
        "Slice 'Slice_0' depend on the data",
    ),
    "padding": (node("Pad", ["x", "widths", "", "axes"], ["y"]), [4, 5], {"axes": [1]}, "its axes depend"),
    "columns": (
        node("Col2Im", ["x", "image", "block"], ["y"]),
        [1, 4, 9],
        {"image": [4, 4], "block": [2, 2]},
        "Col2Im",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_inputs_to_fix_are_named_and_fixing_them_helps(tmp_path, name):
    operator, shape, values, problem = CASES[name]
    inputs = {"x": (FLOAT, shape), **{key: (INT64, [len(value)]) for key, value in values.items()}}
    constants = {"zeros": np.array([0, 1]), "ends": np.array([2, 3]), "widths": np.array([1, 2])}
    used = {key: value for key, value in constants.items() if key in operator.input}
    proto = model([operator], inputs, ["y"], used)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    path = save(tmp_path / "m.onnx", proto)
    error = refusal(path)
    assert problem in error.problem
    assert all(f"{key}: {{value: VALUE}}" in error.remedy for key in values)
    imported = read(path, inputs={key: InputSpec(value=value) for key, value in values.items()})
    x = random(*shape)
    expected = runtime(proto, [x, *(np.array(value) for value in values.values())])[0]
    np.testing.assert_allclose(run_compiled(imported, [x])[0], expected, rtol=1e-5, atol=1e-6)


def test_a_file_without_operators_of_onnx_needs_no_opset_of_onnx(tmp_path):
    nodes = [node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=0.25)]
    proto = model(nodes, {"x": (FLOAT, [3, 4])}, ["y"], domains=["ai.onnx.ml"])
    del proto.opset_import[0]
    x = random(3, 4)
    (result,) = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])
    np.testing.assert_array_equal(result, (x > 0.25).astype(np.float32))
