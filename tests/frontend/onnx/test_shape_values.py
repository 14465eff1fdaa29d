"""Integers that networks compute from their dynamic dimensions."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, model, random, read, runtime, save

node = helper.make_node
CONSTANTS = {
    "0": np.array(0), "1": np.array(1), "2": np.array(2), "[0]": np.array([0]), "[1]": np.array([1]), "[2]": np.array([2]),
    "[-1]": np.array([-1]), "[-2]": np.array([-2]), "[4]": np.array([4]), "[3]": np.array([3]), "[]": np.array([], np.int64),
    "end": np.array([2**63 - 1]), "[1,1]": np.array([1, 1]), "[-1,-1,-1]": np.array([-1, -1, -1]),
    "numbers": random(1, 3, 1),
}  # fmt: skip
SHAPE = [node("Shape", ["x"], ["s"]), *(node("Gather", ["s", str(axis)], [f"d{axis}"]) for axis in range(3))]


def listed(*names):
    """Nodes that concatenate dimensions to a shape, called "to"."""
    parts = [
        node("Unsqueeze", [name, "[0]"], [f"{name}_in_list"]) if not name.startswith("[") else None for name in names
    ]
    of_list = [name if name.startswith("[") else f"{name}_in_list" for name in names]
    return [*filter(None, parts), node("Concat", of_list, ["to"], axis=0)]


CASES = {
    "reshape to a product": [node("Mul", ["d0", "d1"], ["n"]), *listed("n", "[4]"), node("Reshape", ["x", "to"], ["y"])],
    "reshape with the rest open": [*listed("d0", "[-1]", "[2]"), node("Reshape", ["x", "to"], ["y"])],
    "a view of PyTorch's newer exporter": [
        *listed("d0", "d1", "[2]", "[2]"), node("Reshape", ["x", "to"], ["y"], allowzero=1),
    ],
    "reshape to a half": [
        node("Div", ["d2", "2"], ["n"]), *listed("d0", "d1", "n", "[2]"), node("Reshape", ["x", "to"], ["y"]),
    ],
    "an extent as a list": [node("Reshape", ["d0", "[-1]"], ["l"]), node("Concat", ["l", "[-1]"], ["to"], axis=0),
                            node("Reshape", ["x", "to"], ["y"])],
    "a constant broadcast over the batch": [*listed("d0", "[1]", "d2"), node("Expand", ["numbers", "to"], ["y"])],
    "PyTorch's expand": [
        *listed("d0", "[-1]", "d2"),
        node("Equal", ["to", "[-1,-1,-1]"], ["is_open"]),
        node("ConstantOfShape", ["[3]"], ["ones"], value=numpy_helper.from_array(np.array([1]))),
        node("Where", ["is_open", "ones", "to"], ["wanted"]),
        node("Expand", ["numbers", "wanted"], ["y"]),
    ],
    "copies": [*listed("d0", "[1]", "d1"), node("Tile", ["numbers", "to"], ["y"])],
    "a number in arithmetic": [node("Cast", ["d1"], ["n"], to=TensorProto.FLOAT), node("Mul", ["x", "n"], ["y"])],
    "the shape as the output": [node("Add", ["s", "[1]"], ["y"])],
    "positions": [
        node("Range", ["0", "d1", "1"], ["r"]), node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["f", "[1]"], ["column"]), node("Add", ["x", "column"], ["y"]),
    ],
    "positions in 32 bits": [
        node("Cast", ["d1"], ["n"], to=TensorProto.INT32), node("Cast", ["0"], ["z"], to=TensorProto.INT32),
        node("Cast", ["1"], ["o"], to=TensorProto.INT32), node("Range", ["z", "n", "o"], ["y"]),
    ],
    "all but the last": [
        node("Sub", ["d1", "1"], ["n"]), node("Unsqueeze", ["n", "[0]"], ["e"]), node("Slice", ["x", "[0]", "e", "[1]"], ["y"]),
    ],
    "from the second half on": [
        node("Div", ["d1", "2"], ["n"]), node("Unsqueeze", ["n", "[0]"], ["b"]), node("Slice", ["x", "b", "end", "[1]"], ["y"]),
    ],
    "up to an end that may be beyond": [
        node("Unsqueeze", ["d0", "[0]"], ["e"]), node("Slice", ["x", "[0]", "e", "[1]"], ["y"]),
    ],
    "the last, by its number": [node("Sub", ["d1", "1"], ["n"]), node("Gather", ["x", "n"], ["y"], axis=1)],
    "ones of the shape of a part": [
        node("Slice", ["s", "[0]", "[2]", "[0]"], ["part"]),
        node("ConstantOfShape", ["part"], ["y"], value=numpy_helper.from_array(np.array([1], np.float32))),
    ],
    "the number of elements": [
        node("ReduceProd", ["s"], ["n"], keepdims=0), node("Unsqueeze", ["n", "[0]"], ["to"]), node("Reshape", ["x", "to"], ["y"]),
    ],
    "the smaller of two": [
        node("Min", ["d0", "d1"], ["n"]), node("Unsqueeze", ["n", "[0]"], ["e"]), node("Slice", ["x", "[0]", "e", "[1]"], ["y"]),
    ],
    "a remainder": [
        node("Mod", ["d1", "2"], ["n"]), node("Cast", ["n"], ["f"], to=TensorProto.FLOAT), node("Add", ["x", "f"], ["y"]),
    ],
    "a mask of what is before": [
        node("Range", ["0", "d1", "1"], ["r"]), node("Unsqueeze", ["r", "[1]"], ["column"]), node("Less", ["r", "column"], ["y"]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_values_computed_from_dimensions_are_right_for_all_sizes(tmp_path, name):
    proto = model([*SHAPE, *CASES[name]], {"x": (FLOAT, ["batch", "length", 4])}, ["y"], CONSTANTS)
    proto.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(output_type(proto), None))
    imported = read(save(tmp_path / "m.onnx", proto))
    for shape in ((2, 3, 4), (5, 2, 4)):
        x = random(*shape)
        result, expected = run_compiled(imported, [x])[0], runtime(proto, [x])[0]
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def output_type(proto):
    proto.graph.output[0].type.Clear()
    inferred = onnx.shape_inference.infer_shapes(proto).graph.output[0]
    return inferred.type.tensor_type.elem_type


def test_fixed_dimensions_are_integers_beside_dynamic_ones(tmp_path):
    """Widths of paddings that are computed from the fixed height, with a dynamic batch."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "2"], ["height"]),
        node("Mod", ["height", "4"], ["over"]),
        node("Sub", ["4", "over"], ["missing"]),
        node("Unsqueeze", ["missing", "[0]"], ["last"]),
        node("Concat", ["zeros", "last"], ["widths"], axis=0),
        node("Pad", ["x", "widths"], ["y"]),
    ]
    constants = {"2": np.array(2), "4": np.array(4), "[0]": np.array([0]), "zeros": np.zeros(5, np.int64)}
    proto = model(nodes, {"x": (FLOAT, ["batch", 3, 5])}, ["y"], constants)
    x = random(2, 3, 5)
    imported = read(save(tmp_path / "m.onnx", proto))
    assert [tuple(output.shape) for output in imported.signature.outputs] == [("batch", 3, 8)]
    np.testing.assert_array_equal(run_compiled(imported, [x])[0], runtime(proto, [x])[0])


def test_attention_of_onnx_runtime_with_a_past_of_any_length(tmp_path):
    constants = {"w": random(8, 24), "b": random(24, seed=1)}
    attention = node(
        "Attention",
        ["x", "w", "b", "", "past"],
        ["y", "present"],
        domain="com.microsoft",
        num_heads=2,
        unidirectional=1,
    )
    inputs = {"x": (FLOAT, ["batch", "length", 8]), "past": (FLOAT, [2, "batch", 2, "before", 4])}
    proto = model([attention], inputs, ["y", "present"], constants, domains=["com.microsoft"])
    imported = read(save(tmp_path / "m.onnx", proto))
    for length, before in ((1, 3), (4, 2)):
        feeds = [random(2, length, 8), random(2, 2, 2, before, 4, seed=1)]
        for result, expected in zip(run_compiled(imported, feeds), runtime(proto, feeds), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_a_dimension_as_an_output(tmp_path):
    proto = model([*SHAPE, node("Identity", ["d1"], ["y"])], {"x": (FLOAT, ["batch", "length", 4])}, ["y"], CONSTANTS)
    proto.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(INT64, []))
    assert run_compiled(read(save(tmp_path / "m.onnx", proto)), [random(2, 3, 4)])[0] == 3


def test_positions_of_a_table_as_long_as_the_sequence(tmp_path):
    """The form of CLIP's text encoder: the indices of a table's rows, sliced to the length, and the rows."""
    nodes = [
        *SHAPE,
        node("Unsqueeze", ["d1", "[0]"], ["e"]),
        node("Slice", ["rows", "[0]", "e", "[1]"], ["numbers_of_rows"]),
        node("Gather", ["table", "numbers_of_rows"], ["positions"]),
        node("Add", ["x", "positions"], ["moved"]),
        node("Shape", ["moved"], ["t"]),
        node("Reshape", ["moved", "t"], ["y"]),
    ]
    constants = {**CONSTANTS, "rows": np.arange(5)[None], "table": random(5, 4, seed=1)}
    proto = model(nodes, {"x": (FLOAT, ["batch", "length", 4])}, ["y"], constants)
    imported = read(save(tmp_path / "m.onnx", proto))
    assert [tuple(output.shape) for output in imported.signature.outputs] == [("batch", "length", 4)]
    for shape in ((2, 3, 4), (1, 5, 4), (3, 1, 4)):
        x = random(*shape)
        np.testing.assert_allclose(run_compiled(imported, [x])[0], runtime(proto, [x])[0], rtol=1e-5)
    assert imported.signature.bounds == {"length": (0, 5)}


@pytest.mark.parametrize("rows", ["n", 3])
def test_values_that_several_operators_read_are_computed_once(tmp_path, rows):
    nodes = [node("Relu", ["x"], ["r"]), node("Concat", ["r", "r", "x"], ["c"], axis=0), node("Mul", ["c", "c"], ["y"])]
    imported = read(save(tmp_path / "m.onnx", model(nodes, {"x": (FLOAT, [rows, 4])}, ["y"])))
    text = imported.module.script()
    assert [text.count(f"R.{operator}(") for operator in ("nn.relu", "concat", "multiply")] == [1, 1, 1]


def test_a_range_of_floats_has_the_length_of_its_dimension(tmp_path):
    """The centres of an image's cells in detectors."""
    nodes = [
        *SHAPE[:3], node("Cast", ["d1"], ["count"], to=FLOAT), node("Range", ["0.0", "count", "1.0"], ["cells"]),
        node("Add", ["cells", "0.5"], ["centres"]), node("Mul", ["x", "centres"], ["y"]),
    ]  # fmt: skip
    constants = {**CONSTANTS, **{str(number): np.float32(number) for number in (0.0, 0.5, 1.0)}}
    proto = model(nodes, {"x": (FLOAT, ["batch", "length"])}, ["y"], constants)
    imported = read(save(tmp_path / "m.onnx", proto))
    assert imported.signature.outputs[0].shape == ("batch", "length")
    for shape in ((2, 3), (1, 1), (3, 8)):
        x = random(*shape)
        np.testing.assert_array_equal(run_compiled(imported, [x])[0], runtime(proto, [x])[0])
