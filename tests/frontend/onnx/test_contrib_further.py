"""Rare operators of ONNX Runtime, and operators whose shapes are known only after folding, compared with ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, model, random, read, runtime, save

CONTRIB = "com.microsoft"
node = helper.make_node
DRAW = np.random.default_rng(0)


def quantised_attention(weights: np.ndarray, zero: np.ndarray, **values: int) -> onnx.ModelProto:
    constants = {"w": weights, "b": random(24), "ws": np.float32(0.01), "wz": zero}
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("QAttention", ["q", "w", "b", "s", "ws", "m", "z", "wz"], ["y"], domain=CONTRIB, num_heads=2, **values),
    ]
    inputs = {"x": (FLOAT, [2, 5, 8]), "m": (onnx.TensorProto.INT32, [2, 5])}
    return model(nodes, inputs, ["y"], constants, domains=[CONTRIB])


MASK = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]], np.int32)


@pytest.mark.parametrize("values", [{}, {"unidirectional": 1}], ids=["all", "what is before"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_attention_with_quantised_weights_agrees_with_onnx_runtime(tmp_path, dtype, values):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    weights = DRAW.integers(low, high, (8, 24)).astype(dtype)
    proto = quantised_attention(weights, np.asarray((low + high) // 2, dtype), **values)
    given = [random(2, 5, 8), MASK]
    result = run_compiled(read(save(tmp_path / "m.onnx", proto)), given)
    np.testing.assert_allclose(result[0], runtime(proto, given)[0], rtol=1e-4, atol=1e-5)


def test_where_on_quantised_values_agrees_with_onnx_runtime(tmp_path):
    constants = {
        "xs": np.float32(0.02), "xz": np.uint8(128), "k": np.float32(0), "y": DRAW.integers(0, 255, (3, 4)).astype(np.uint8),
        "ys": np.float32(0.03), "yz": np.uint8(100), "os": np.float32(0.05), "oz": np.uint8(120),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        node("Greater", ["x", "k"], ["c"]),
        node("QLinearWhere", ["c", "q", "xs", "xz", "y", "ys", "yz", "os", "oz"], ["w"], domain=CONTRIB),
        node("DequantizeLinear", ["w", "os", "oz"], ["z"]),
    ]
    proto, x = model(nodes, {"x": (FLOAT, [3, 4])}, ["z"], constants, domains=[CONTRIB]), random(3, 4)
    np.testing.assert_allclose(
        run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])[0], runtime(proto, [x])[0], atol=1e-6
    )


MOVES = {
    "Trilu": ({}, {"upper": 0}, [4, 4]),
    "ExpandDims": ({"axis": np.array(1, np.int32)}, {}, [4, 4]),
    "Pad": ({"p": np.array([1, 0, 0, 2]), "v": np.array([0.5], np.float32)}, {}, [4, 3]),
    "GridSample": ({"g": 0.9 * np.tanh(random(1, 3, 3, 2))}, {"padding_mode": "border"}, [1, 2, 4, 4]),
}


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("operator", MOVES)
def test_operators_of_older_pytorch_exports_agree_with_onnx(tmp_path, operator, opset):
    constants, values, shape = MOVES[operator]
    nodes = [node(operator, ["x", *constants], ["y"], domain=CONTRIB, **values)]
    proto = model(nodes, {"x": (FLOAT, shape)}, ["y"], constants, opset=opset, domains=[CONTRIB])
    x = random(*shape)
    result = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])
    np.testing.assert_allclose(result[0], runtime(proto, [x])[0], rtol=1e-5, atol=1e-6)


def columns_as_steps(batch: int | str, layer: onnx.NodeProto, constants: dict[str, np.ndarray]) -> onnx.ModelProto:
    """A recurrent layer over the columns of images, flattened like in PyTorch's older exporter."""
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Shape", ["r"], ["s"]),
        node("Slice", ["s", "zero", "one"], ["first"]),
        node("Slice", ["s", "three", "four"], ["last"]),
        node("Concat", ["first", "rest", "last"], ["to"], axis=0),
        node("Reshape", ["r", "to"], ["rows"]),
        node("Transpose", ["rows"], ["steps"], perm=[2, 0, 1]),
        layer,
    ]
    numbers = {"zero": 0, "one": 1, "three": 3, "four": 4, "rest": -1}
    lists = {name: np.array([number]) for name, number in numbers.items()}
    domains = [layer.domain] if layer.domain else []
    return model(nodes, {"x": (FLOAT, [batch, 3, 2, 7])}, ["y"], {**lists, **constants}, opset=13, domains=domains)


def test_a_recurrent_layer_over_columns_with_a_dynamic_batch(tmp_path):
    layer = node("LSTM", ["steps", "w", "r_", "b"], ["y"], hidden_size=4)
    proto = columns_as_steps("batch", layer, {"w": random(1, 16, 6), "r_": random(1, 16, 4), "b": random(1, 32)})
    x = random(2, 3, 2, 7)
    result = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])
    np.testing.assert_allclose(result[0], runtime(proto, [x])[0], rtol=1e-4, atol=1e-5)


def test_a_recurrent_layer_in_integers_whose_length_follows_from_shapes(tmp_path):
    names = ["steps", "w", "r_", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    layer = node("DynamicQuantizeLSTM", names, ["y"], domain=CONTRIB, hidden_size=4)
    constants = {
        "w": DRAW.integers(-64, 64, (1, 6, 16)).astype(np.int8), "r_": DRAW.integers(-64, 64, (1, 4, 16)).astype(np.int8),
        "b": random(1, 32), "ws": np.array([0.01], np.float32), "wz": np.zeros(1, np.int8),
        "rs": np.array([0.01], np.float32), "rz": np.zeros(1, np.int8),
    }  # fmt: skip
    proto, x = columns_as_steps(1, layer, constants), random(1, 3, 2, 7)
    result = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])
    np.testing.assert_allclose(result[0], runtime(proto, [x])[0], rtol=1e-4, atol=1e-5)


def test_a_network_of_scikit_learn_scales_its_inputs_and_returns_labels(tmp_path):
    constants = {"w": random(5, 3), "classes": np.array([7, 2, 5], np.int64)}
    nodes = [
        node("Scaler", ["x"], ["scaled"], domain="ai.onnx.ml", offset=[0.5, 0, 1, 2, 3], scale=[2.0] * 5),
        node("MatMul", ["scaled", "w"], ["scores"]),
        node("ArgMax", ["scores"], ["best"], axis=1),
        node("ArrayFeatureExtractor", ["classes", "best"], ["label"], domain="ai.onnx.ml"),
        node("ArrayFeatureExtractor", ["scores", "some"], ["two"], domain="ai.onnx.ml"),
    ]
    constants["some"] = np.array([2, 0], np.int64)
    proto = model(nodes, {"x": (FLOAT, ["n", 5])}, ["scores"], constants, domains=["ai.onnx.ml"])
    proto.graph.output.extend(
        [
            helper.make_tensor_value_info("label", onnx.TensorProto.INT64, None),
            helper.make_tensor_value_info("two", FLOAT, None),
        ]
    )
    imported = read(save(tmp_path / "m.onnx", proto))
    for rows in (1, 4):
        x = random(rows, 5)
        for found, wanted in zip(run_compiled(imported, [x]), runtime(proto, [x]), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
