"""Slices that start where the data say, as in decoders' caches, agree with ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, model, random, read, runtime, save

CONSTANTS = {"zero": np.array([0]), "one": np.array([1]), "three": np.array(3), "two": np.array(2)}

node = helper.make_node

ROWS = {
    "one row": [node("Add", ["offset", "one"], ["end"]), node("Slice", ["cache", "offset", "end", "zero"], ["y"])],
    "three rows, from a scalar": [
        node("Squeeze", ["offset", "zero"], ["scalar"]),
        node("Add", ["three", "scalar"], ["sum"]),
        node("Unsqueeze", ["scalar", "zero"], ["start"]),
        node("Unsqueeze", ["sum", "zero"], ["end"]),
        node("Slice", ["cache", "start", "end", "one"], ["y"]),
    ],
    "two rows before a position": [
        node("Squeeze", ["offset", "zero"], ["scalar"]),
        node("Add", ["scalar", "three"], ["sum"]),
        node("Sub", ["sum", "two"], ["difference"]),
        node("Cast", ["difference"], ["narrow"], to=TensorProto.INT32),
        node("Cast", ["sum"], ["narrow_end"], to=TensorProto.INT32),
        node("Unsqueeze", ["narrow", "zero"], ["start"]),
        node("Unsqueeze", ["narrow_end", "zero"], ["end"]),
        node("Cast", ["zero"], ["narrow_zero"], to=TensorProto.INT32),
        node("Slice", ["cache", "start", "end", "narrow_zero"], ["y"]),
    ],
}


def network(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    return model(nodes, {"cache": (FLOAT, [16, 8]), "offset": (INT64, [1])}, ["y"], CONSTANTS)


@pytest.mark.parametrize("nodes", ROWS.values(), ids=ROWS)
def test_slices_of_known_length_read_rows(tmp_path, nodes):
    proto = network(nodes)
    imported = read(save(tmp_path / "m.onnx", proto))
    for offset in (0, 4):
        inputs = [random(16, 8), np.array([offset])]
        np.testing.assert_array_equal(run_compiled(imported, inputs)[0], runtime(proto, inputs)[0])


@pytest.mark.parametrize(("start", "end"), [("zero", "offset"), ("offset", "double")])
def test_slices_of_unknown_length_have_as_many_rows_as_the_data_say(tmp_path, start, end):
    nodes = [node("Add", ["offset", "offset"], ["double"]), node("Slice", ["cache", start, end, "zero"], ["y"])]
    proto = network(nodes)
    imported = read(save(tmp_path / "m.onnx", proto))
    for offset in (0, 4, 12, -3):
        inputs = [random(16, 8), np.array([offset])]
        np.testing.assert_array_equal(run_compiled(imported, inputs)[0], runtime(proto, inputs)[0])
