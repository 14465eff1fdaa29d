"""Operators of ONNX by TVM's importer, compared with ONNX Runtime."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from building import PLAIN
from onnx import helper, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx


def problem(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    shapes: dict[str, list[Any]] | None = None,
    opset: int = 19,
) -> str:
    """What is wrong with the output ``y`` of a graph that TVM has imported and built; empty if nothing is.

    Args:
        shapes: of inputs with dynamic dimensions.
    """
    types = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in inputs.items()}
    known = {name: list(value.shape) for name, value in inputs.items()} | (shapes or {})
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, types[name], known[name]) for name in inputs],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    if not model.graph.output[0].type.HasField("tensor_type"):
        model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, inputs)
    try:
        module = relax.transform.DecomposeOpsForInference()(from_onnx(model, keep_params_in_input=False))
        machine = relax.VirtualMachine(tvm.compile(module, target=PLAIN), tvm.cpu())
        result = machine["main"](*map(tvm.runtime.tensor, inputs.values()))
        result = result.numpy()
    except Exception as error:
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:300]
    if result.shape != expected.shape:
        return f"shape {result.shape} instead of {expected.shape}"
    if not np.allclose(result, expected, rtol=1e-4, atol=1e-6):
        return f"{result.ravel()[:4]} instead of {expected.ravel()[:4]}"
    return ""
