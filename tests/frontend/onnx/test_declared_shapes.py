"""Declared shapes of outputs are used only if they do not follow from the operators."""

import numpy as np
import pytest
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, model, random, read, runtime, save

node = helper.make_node


def declare(proto, *shapes):
    for value, shape in zip(proto.graph.output, shapes, strict=True):
        value.type.tensor_type.ClearField("shape")
        for extent in shape:
            value.type.tensor_type.shape.dim.add(dim_value=extent)
    return proto


@pytest.mark.parametrize(
    ("nodes", "shapes"),
    [
        ([node("MaxPool", ["x"], ["y", "z"], kernel_shape=[2, 2], strides=[2, 2])], ([1, 2, 3, 3], [1, 2, 3, 3])),
        ([node("Shape", ["x"], ["y"]), node("Size", ["x"], ["z"])], ([3], [])),
        ([node("Relu", ["x"], ["y"]), node("Flatten", ["y"], ["z"])], ([1, 2, 7, 8], [1, 127])),
    ],
)
def test_an_inferred_shape_overrides_a_wrong_declaration(tmp_path, nodes, shapes):
    inputs = {"x": (FLOAT, [1, 2, 8, 8])}
    proto = declare(model(nodes, inputs, ["y", "z"]), *shapes)
    x = random(1, 2, 8, 8)
    imported = read(save(tmp_path / "m.onnx", proto))
    expected = runtime(proto, [x])
    for output, right in zip(run_compiled(imported, [x]), expected, strict=True):
        np.testing.assert_array_equal(output, right)
    assert [spec.shape for spec in imported.signature.outputs] == [right.shape for right in expected]


@pytest.mark.parametrize(("operator", "declared", "given"), [("Tile", [4, 7], [2, 2]), ("Expand", [3, 6], [2, 6])])
def test_a_run_time_argument_is_kept_if_no_constant_gives_the_declared_output(tmp_path, operator, declared, given):
    inputs = {"x": (FLOAT, [2, 6]), "a": (INT64, [2])}
    proto = declare(model([node(operator, ["x", "a"], ["y"])], inputs, ["y"]), declared)
    given = [random(2, 6), np.array(given)]
    np.testing.assert_array_equal(
        run_compiled(read(save(tmp_path / "m.onnx", proto)), given)[0], runtime(proto, given)[0]
    )


@pytest.mark.parametrize(
    ("layer", "value", "shapes"),
    [
        (node("Reshape", ["x", "a"], ["y"]), [3, 4], ([2, 5],)),
        (node("Split", ["x", "a"], ["y", "z"], axis=1), [2, 4], ([2, 1], [2, 3])),
    ],
)
def test_a_run_time_argument_is_not_derived_from_an_impossible_output(tmp_path, layer, value, shapes):
    inputs = {"x": (FLOAT, [2, 6]), "a": (INT64, [2])}
    proto = declare(model([layer], inputs, list(layer.output)), *shapes)
    given = [random(2, 6), np.array(value)]
    results = run_compiled(read(save(tmp_path / "m.onnx", proto)), given)
    for result, expected in zip(results, runtime(proto, given), strict=True):
        np.testing.assert_array_equal(result, expected)
