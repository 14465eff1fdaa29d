"""Biases near the limit of int32, which quantisers write for nearly dead channels, do not wrap.

ONNX Runtime's fused kernels wrap: its results have the wrong sign. The expected values are those of the dequantised arithmetic.
"""

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, model, read, save
from tests.transform.nets import transformed
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.run import open_reference, reference_outputs

node = helper.make_node

SCALE, WEIGHT_SCALE, LIMIT = np.float32(0.5), np.float32(1e-9), 2**31 - 1

QUANTIZED = [
    node("QuantizeLinear", ["x", "s", "zero"], ["integers"]),
    node("DequantizeLinear", ["integers", "s", "zero"], ["real"]),
]

WEIGHTS = [node("DequantizeLinear", ["w", "ws"], ["weights"]), node("DequantizeLinear", ["b", "bs"], ["bias"])]


def network(form: str, bias: int) -> onnx.ModelProto:
    shape = (1, 2) if form == "gemm" else (1, 2, 1, 1)
    constants = {
        "s": SCALE, "zero": np.uint8(0), "w": np.full(shape, 127, np.int8), "ws": WEIGHT_SCALE,
        "b": np.array([bias], np.int32), "bs": SCALE * WEIGHT_SCALE, "ys": np.float32(0.01), "wz": np.int8(0),
    }  # fmt: skip
    nodes = {
        "convolution": [*QUANTIZED, *WEIGHTS, node("Conv", ["real", "weights", "bias"], ["y"])],
        "gemm": [*QUANTIZED, *WEIGHTS, node("Gemm", ["real", "weights", "bias"], ["y"], transB=1)],
        "qlinear": [
            QUANTIZED[0],
            node("QLinearConv", ["integers", "s", "zero", "w", "ws", "wz", "ys", "zero", "b"], ["rounded"]),
            node("DequantizeLinear", ["rounded", "ys", "zero"], ["y"]),
        ],
    }
    return model(nodes[form], {"x": (FLOAT, shape)}, ["y"], constants)


@pytest.mark.parametrize("form", ["convolution", "gemm", "qlinear"])
@pytest.mark.parametrize("bias", [LIMIT, -LIMIT, 1000])
def test_a_bias_near_the_limit_of_int32_keeps_its_sign(tmp_path, form, bias):
    proto = network(form, bias)
    imported = read(save(tmp_path / "m.onnx", proto))
    module, parameters = transformed(imported)[:2]
    x = np.full([dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim], 3, np.float32)
    converted = ImportedModel(module, parameters, imported.signature, {})
    expected = float(2 * 3 * 127 * WEIGHT_SCALE + bias * SCALE * WEIGHT_SCALE)
    if form == "qlinear":
        expected = np.clip(np.rint(expected / 0.01), 0, 255) * 0.01
    np.testing.assert_allclose(run_compiled(converted, [x])[0].ravel()[0], expected, rtol=1e-5)


@pytest.mark.parametrize("bias", [LIMIT, -LIMIT])
def test_the_reference_of_such_a_bias_does_not_wrap(tmp_path, bias):
    path = save(tmp_path / "m.onnx", network("qlinear", bias))
    imported = read(path)
    reference = open_reference(str(path), ImportOptions(source=str(path)), imported.signature)
    sample = {"x": np.full((1, 2, 1, 1), 3, np.float32)}
    (outputs,) = reference_outputs(reference, imported.signature, [sample])
    expected = float(2 * 3 * 127 * WEIGHT_SCALE + bias * SCALE * WEIGHT_SCALE)
    np.testing.assert_allclose(outputs["y"].ravel(), [np.clip(np.rint(expected / 0.01), 0, 255) * 0.01], rtol=1e-5)
