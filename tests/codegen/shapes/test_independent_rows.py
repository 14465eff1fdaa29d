"""Whether a network's rows along a dimension are provably independent of each other."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.codegen.shapes.test_lowering import network
from tests.frontend.onnx import models
from tests.transform.nets import imported
from tvmake.codegen.shapes.independent_rows import DependentRows, RowAxes, row_axes
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest

node = helper.make_node

SLICE = {"starts": np.array([-1]), "ends": np.array([-1000]), "axes": np.array([0]), "steps": np.array([-1])}


def axes_of(nodes: list[Any], shape: list[int | str], outputs: str = "y", dimension: str = "batch", **values: Any):
    proto = models.model(nodes, {"x": (models.FLOAT, shape)}, outputs.split(), values, opset=17)
    model = imported(proto)
    module, _ = transform(model.module, model.params, TransformRequest())
    return row_axes(module, dimension, 1)


@pytest.mark.parametrize(
    ("nodes", "shape", "outputs", "values", "axes"),
    [
        ([node("Softmax", ["x"], ["y"], axis=1)], ["batch", 8], "y", {}, (0,)),
        ([node("Transpose", ["x"], ["y"], perm=[1, 0])], ["batch", 8], "y", {}, (1,)),
        ([node("Concat", ["x", "x"], ["y"], axis=1)], ["batch", 8], "y", {}, (0,)),
        ([node("ReduceMax", ["x"], ["y"], axes=[0])], [8, "batch"], "y", {}, (1,)),
        (
            # Attention: each row becomes several elements of an axis, and back.
            [
                node("Reshape", ["x", "split"], ["s"]),
                node("Transpose", ["s"], ["h"], perm=[0, 2, 1, 3]),
                node("Reshape", ["h", "flat"], ["f"]),
                node("Transpose", ["f"], ["t"], perm=[0, 2, 1]),
                node("MatMul", ["f", "t"], ["m"]),
                node("Softmax", ["m"], ["p"], axis=-1),
                node("MatMul", ["p", "f"], ["a"]),
                node("Reshape", ["a", "back"], ["y"]),
            ],
            ["batch", 6, 8],
            "y",
            {"split": np.array([0, 6, 2, 4]), "flat": np.array([-1, 6, 4]), "back": np.array([-1, 2, 6, 4])},
            (0,),
        ),
    ],
)
def test_rows_of_operators_on_other_axes_are_independent(nodes, shape, outputs, values, axes):
    found = axes_of(nodes, shape, outputs, **values)
    assert found.outputs == axes
    assert found.inputs == (shape.index("batch"),)


def test_rows_may_have_a_dynamic_length():
    """All positions of all sequences as rows of a matrix, and back."""
    nodes = [
        node("Reshape", ["x", "flat"], ["f"]),
        node("MatMul", ["f", "w"], ["m"]),
        node("Tanh", ["m"], ["t"]),
        node("Shape", ["x"], ["s"]),
        node("Reshape", ["t", "s"], ["y"]),
    ]
    values = {"flat": np.array([-1, 8]), "w": models.random(8, 8)}
    shape = ["batch", "length", 8]
    assert axes_of(nodes, shape, **values) == RowAxes((0,), (0,))
    with pytest.raises(DependentRows, match="`reshape` may read several rows"):
        axes_of(nodes, shape, dimension="length", **values)


def test_rows_of_whole_networks_are_independent_along_the_batch():
    assert row_axes(network("classifier")[0], "batch", 1) == RowAxes((0,), (0,))
    assert row_axes(network("encoder")[0], "batch", 1) == RowAxes((0,), (0, 0))


@pytest.mark.parametrize(
    ("nodes", "values", "reason"),
    [
        ([node("Softmax", ["x"], ["y"], axis=0)], {}, "`softmax` may read several rows"),
        ([node("ReduceMean", ["x"], ["y"], axes=[0])], {}, "`mean` may read several rows"),
        (
            [node("Transpose", ["x"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"])],
            {},
            "`matmul` may read several rows",
        ),
        ([node("Concat", ["x", "x"], ["y"], axis=0)], {}, "number of a row"),
        (
            # Of 8 elements for each row, the first half of all.
            [
                node("Reshape", ["x", "flat"], ["f"]),
                node("Shape", ["x"], ["n"], start=0, end=1),
                node("Mul", ["n", "four"], ["half"]),
                node("Slice", ["f", "zero", "half", "zero"], ["s"]),
                node("Reshape", ["s", "back"], ["y"]),
            ],
            {"flat": np.array([-1]), "four": np.array([4]), "zero": np.array([0]), "back": np.array([-1, 4])},
            "`strided_slice` may read several rows",
        ),
        ([node("Reshape", ["x", "to"], ["y"])], {"to": np.array([4, -1])}, "`reshape` may read several rows"),
        ([node("CumSum", ["x", "axis"], ["y"])], {"axis": np.array(0)}, "`cumsum` has loops that cannot be analysed"),
        (
            [node("TopK", ["x", "one"], ["y", "i"], axis=0)],
            {"one": np.array([1])},
            "`topk` has loops that cannot be analysed",
        ),
        ([node("Slice", ["x", *SLICE], ["y"])], SLICE, "an axis is not a multiple of batch"),
        (
            [
                node("Shape", ["x"], ["s"], start=0, end=1),
                node("Cast", ["s"], ["n"], to=models.FLOAT),
                node("Div", ["x", "n"], ["y"]),
            ],
            {},
            "a layer computes with the shape of a tensor, which is known at run time",
        ),
    ],
)
def test_rows_that_depend_on_others_or_on_their_number_are_not(nodes, values, reason: str):
    with pytest.raises(DependentRows, match=reason):
        axes_of(nodes, ["batch", 8], **values)


def test_a_length_whose_positions_are_combined_is_not():
    with pytest.raises(DependentRows, match="`mean` may read several rows"):
        row_axes(network("encoder")[0], "length", 1)
