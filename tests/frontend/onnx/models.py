"""Small ONNX models for the tests, and results of ONNX's reference and ONNX Runtime."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tvmake.errors import InputError
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.onnx import importer as frontend
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.onnx_model import INTEGER_PRODUCTS

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, Sequence[int | str | None] | None]],
    outputs: Sequence[str],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 18,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model; inputs are (element type, shape), types and shapes of outputs are inferred."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(proto)
    types = {value.name: value for value in inferred.graph.output}
    for value in proto.graph.output:
        value.CopyFrom(types[value.name])
        if not value.type.HasField("tensor_type"):
            value.type.tensor_type.elem_type = FLOAT
    return proto


def save(path: Path, proto: onnx.ModelProto) -> Path:
    path.write_bytes(proto.SerializeToString())
    return path


def read(path: Path, **options) -> ImportedModel:
    return frontend.read(path, ImportOptions(source=str(path), **options))


def reference(proto: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    names = [value.name for value in proto.graph.input]
    return ReferenceEvaluator(proto).run(None, dict(zip(names, inputs, strict=True)))


def runtime(proto: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    if any(node.op_type in INTEGER_PRODUCTS for node in proto.graph.node):
        # Without it, sums of 8-bit products saturate on processors with AVX2 alone.
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([value.name for value in session.get_inputs()], inputs, strict=True)))


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def linear(batch: int | str = "N", weight_name: str = "fc.weight") -> onnx.ModelProto:
    """x·W + b over a dynamic batch."""
    return model(
        [helper.make_node("MatMul", ["input.1", weight_name], ["h"]), helper.make_node("Add", ["h", "fc.bias"], ["0"])],
        {"input.1": (FLOAT, [batch, 16])},
        ["0"],
        {weight_name: random(16, 32), "fc.bias": random(32, seed=1)},
    )


def refusal(path: Path, **options) -> InputError:
    """The error with which a file is refused."""
    with pytest.raises(InputError) as caught:
        read(path, **options)
    assert caught.value.where == str(path)
    return caught.value
