"""Poolings with ceil_mode: windows that cover only padding are omitted, and later operators get the right shapes."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper

from tests.unoptimised import unoptimised_machine
from tvmake.frontend.onnx.importer import read
from tvmake.frontend.options import ImportOptions

# Dimensions, pooling window, strides, padding; a window is omitted along both axes, along one, along one with one more along the other,
# and along none.
POOLINGS = {
    "both": ((6, 6), [2, 2], [2, 2], [0, 0, 1, 1]),
    "one": ((6, 8), [2, 2], [2, 2], [0, 0, 1, 0]),
    "one and one more": ((6, 6), [3, 3], [3, 3], [0, 1, 2, 0]),
    "strides longer than windows": ((6, 5), [1, 1], [2, 3], [0, 0, 0, 0]),
    "none": ((8, 6), [3, 2], [3, 2], [0, 0, 0, 1]),
}


@pytest.mark.parametrize("batch", [1, "n"])
@pytest.mark.parametrize("poolings", POOLINGS.values(), ids=POOLINGS)
@pytest.mark.parametrize(
    ("operator", "opset", "options"),
    [("AveragePool", 13, {}), ("AveragePool", 19, {"count_include_pad": 1}), ("MaxPool", 13, {}), ("LpPool", 18, {})],
)
def test_later_operators_get_the_shapes_of_onnx_runtime(
    tmp_path: Path, operator: str, opset: int, options: dict[str, Any], poolings: Any, batch: int | str
):
    extents, window, strides, padding = poolings
    nodes = [
        helper.make_node(
            operator, ["x"], ["pooled"], kernel_shape=window, strides=strides, pads=padding, ceil_mode=1, **options
        ),
        helper.make_node("Resize", ["pooled", "", "scales"], ["y"], mode="linear"),
    ]
    graph = helper.make_graph(
        nodes,
        "pooled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 2, *extents])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, 1.5, 1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()
    path = tmp_path / "pooled.onnx"
    path.write_bytes(model)
    x = np.random.default_rng(0).standard_normal((1, 2, *extents)).astype(np.float32)
    silent = onnxruntime.SessionOptions()
    silent.log_severity_level = 4
    (expected,) = onnxruntime.InferenceSession(model, silent).run(None, {"x": x})
    imported = read(path, ImportOptions(source=str(path)))
    machine = unoptimised_machine(imported.module)
    weights = [imported.params[str(one.name)] for one in imported.module["main"].params[1:]]
    result = machine["main"](tvm.runtime.tensor(x), *weights)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)
