"""Poolings with automatic padding."""

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

# Dimensions, pooling window, strides.
POOLINGS = {
    "odd padding": ((7, 5), [3, 2], [2, 2]),
    "more rows than steps": ((3, 6), [3, 3], [2, 3]),
    "strides longer than windows": ((4, 7), [2, 1], [3, 2]),
    "sequences": ((9,), [3], [2]),
}


@pytest.mark.parametrize("batch", [1, "n"])
@pytest.mark.parametrize("pooling", POOLINGS.values(), ids=POOLINGS)
@pytest.mark.parametrize("automatic", ["SAME_LOWER", "SAME_UPPER"])
@pytest.mark.parametrize(
    ("operator", "opset", "options"),
    [
        ("AveragePool", 13, {}),
        ("AveragePool", 19, {"dilations": [2, 2]}),
        ("MaxPool", 13, {}),
        ("MaxPool", 13, {"dilations": [1, 2]}),
        ("LpPool", 18, {}),
    ],
)
def test_automatic_padding_agrees_with_onnx_runtime(
    tmp_path: Path, operator: str, opset: int, options: dict[str, Any], automatic: str, pooling: Any, batch: int | str
):
    extents, window, strides = pooling
    options = {name: value[: len(extents)] for name, value in options.items()}
    node = helper.make_node(operator, ["x"], ["y"], kernel_shape=window, strides=strides, auto_pad=automatic, **options)
    graph = helper.make_graph(
        [node],
        "padded",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 2, *extents])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()
    path = tmp_path / "padded.onnx"
    path.write_bytes(model)
    x = np.random.default_rng(0).standard_normal((1, 2, *extents)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    imported = read(path, ImportOptions(source=str(path)))
    machine = unoptimised_machine(imported.module)
    result = machine["main"](tvm.runtime.tensor(x))
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)
