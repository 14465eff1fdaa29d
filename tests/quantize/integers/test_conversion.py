"""Quantised sources use integers, match ONNX Runtime, and keep their weights small."""

import numpy as np
import onnx
import pytest
from onnx import helper
from onnxruntime.quantization import QuantType

from tests.frontend.onnx import models as onnx_models
from tests.quantize.nets import SHAPE, drawn_network, image, quantized_by_onnxruntime, quantized_dynamically
from tests.transform.nets import Compiled, Transformed, calls, imported, input_dtypes, operators, run, transformed
from tvmake.quantize.integers.coverage import COVERAGE
from tvmake.quantize.precision import PrecisionConfig

PRODUCTS = ("nn.conv2d", "matmul")


def output_step(made: onnx.ModelProto) -> float:
    """The scale of the network's output."""
    last = next(node for node in made.graph.node if node.output[0] == made.graph.output[0].name)
    assert last.op_type == "DequantizeLinear"
    scales = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    return float(scales[last.input[1]].reshape(()))


def weight_bytes(made: Transformed) -> int:
    return sum(value.numpy().nbytes for value in made[1].values())


@pytest.mark.parametrize(
    "seed",
    # Both types of activations, both formats, scales of channels and tensors, symmetric or not; the others repeat these.
    [1, 2, 4, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (0, 3, 5, 6, 7))],
)
def test_drawn_networks_differ_from_onnxruntime_by_a_step_at_most(seed, tmp_path):
    quantized = quantized_by_onnxruntime(drawn_network(seed), seed, tmp_path)
    made = transformed(imported(quantized))
    for name in PRODUCTS:
        for call in calls(made[0], name):
            assert str(call.ty.dtype) == "int32", f"{name} of {input_dtypes(call)}"
    step, steps, compiled = output_step(quantized), [], Compiled(made)
    for number in range(8):
        expected = onnx_models.runtime(quantized, [image(100 + number)])[0]
        steps.append(np.abs(compiled(image(100 + number)) - expected) / step)
    found = np.concatenate(steps)
    assert np.mean(found <= 1.01) >= 0.999
    assert found.max() <= 2.01


def test_weights_of_a_quantised_network_take_a_quarter_of_the_floats(tmp_path):
    network = wide()
    floats = sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in network.graph.initializer)
    made = transformed(imported(quantized_by_onnxruntime(network, 3, tmp_path)))
    assert 0 < weight_bytes(made) <= 0.27 * floats


@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize("per_channel", [False, True])
def test_dynamically_quantised_products_are_exact(kind, per_channel, tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w2"], ["y"]),
    ]
    constants = {"w1": onnx_models.random(32, 48, seed=1), "w2": onnx_models.random(48, 10, seed=2)}
    network = onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [5, 32])}, ["y"], constants)
    quantized = quantized_dynamically(network, kind, per_channel, tmp_path)
    made = transformed(imported(quantized))
    x = onnx_models.random(5, 32, seed=3)
    expected = onnx_models.runtime(quantized, [x])[0]
    np.testing.assert_allclose(run(made, x), expected, rtol=1e-5, atol=1e-4 * np.abs(expected).max())
    assert {str(value.dtype) for value in made[1].values()} == {"int8"}


def test_a_value_that_is_quantised_again_on_its_grid_stays_in_integers(tmp_path):
    made = transformed(imported(quantized_by_onnxruntime(pooled(), 0, tmp_path)))
    (pool,) = calls(made[0], "nn.max_pool2d")
    assert input_dtypes(pool) in (["uint8"], ["int8"])


def wide() -> onnx.ModelProto:
    """Two convolutions with many weights."""
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["c"], kernel_shape=[1, 1]),
        helper.make_node("Conv", ["c", "w2"], ["y"], kernel_shape=[3, 3]),
    ]
    weights = {"w1": onnx_models.random(32, 3, 1, 1), "w2": onnx_models.random(32, 32, 3, 3)}
    return onnx_models.model(nodes, {"image": (onnx_models.FLOAT, list(SHAPE))}, ["y"], weights)


def pooled() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], kernel_shape=[3, 3]),
        helper.make_node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    inputs = {"image": (onnx_models.FLOAT, list(SHAPE))}
    return onnx_models.model(nodes, inputs, ["y"], {"w": onnx_models.random(8, 3, 3, 3)})


def test_padding_is_the_zero_point_and_not_zero():
    """The padding is real 0, which the integer 100 represents."""
    constants = {
        "s": np.float32(0.5), "z": np.uint8(100), "w": np.full((1, 1, 3, 3), 1, np.int8), "ws": np.float32(1),
        "wz": np.int8(0),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["v"]),
        helper.make_node("Conv", ["d", "v"], ["y"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
    ]
    network = onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [1, 1, 3, 3])}, ["y"], constants)
    made = transformed(imported(network))
    assert operators(made[0])["nn.pad"] == 1
    np.testing.assert_array_equal(
        run(made, np.full((1, 1, 3, 3), 2, np.float32))[0, 0], [[8, 12, 8], [12, 18, 12], [8, 12, 8]]
    )


@pytest.mark.parametrize(
    ("pads", "stride", "window"), [((1, 1, 1, 1), 1, 3), ((0, 1, 2, 0), 2, 3), ((0, 0, 0, 0), 1, 1)]
)
def test_unsigned_weights_of_convolutions_are_stored_in_8_bits_exactly(pads, stride, window):
    """Centred weights need 9 bits: sums of kernel windows correct the difference from 8 bits."""
    draw = np.random.default_rng(0)
    constants = {
        "s": np.float32(0.5), "z": np.uint8(100), "ws": np.float32(1), "wz": np.uint8(125),
        "w": draw.integers(0, 256, (16, 5, window, window)).astype(np.uint8),
    }  # fmt: skip
    constants["w"].flat[:2] = 0, 255
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("ConvInteger", ["q", "w", "z", "wz"], ["sums"], pads=pads, strides=[stride] * 2),
        helper.make_node("Cast", ["sums"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    network = onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [1, 5, 9, 9])}, ["y"], constants)
    made = transformed(imported(network))
    data = draw.integers(-50, 77, (1, 5, 9, 9)).astype(np.float32)
    np.testing.assert_array_equal(run(made, data), onnx_models.runtime(network, [data])[0])
    held = [call.args[1].ty for call in calls(made[0], "nn.conv2d")]
    assert "int16" not in [str(kind.dtype) for kind in held]
    assert str(held[-1].dtype) == "int8" or str(held[0].dtype) == "int8"


@pytest.mark.parametrize(("groups", "channels", "zero"), [(1, 5, "none"), (1, 5, "per channel"), (3, 2, "one")])
def test_transposed_convolutions_of_a_quantised_network_are_computed_in_integers(groups, channels, zero):
    draw = np.random.default_rng(0)
    many = channels if zero == "per channel" else 1
    kind = np.int8 if zero == "none" else np.uint8
    limits = np.iinfo(kind)
    constants = {
        "s": np.float32(0.5), "z": np.uint8(100), "w": draw.integers(limits.min, limits.max, (6, channels, 4, 4)).astype(kind),
        "ws": (draw.random(many).astype(np.float32) + 0.1).reshape(-1 if many > 1 else ()),
        "wz": (np.zeros(many, kind) if zero == "none" else draw.integers(100, 150, many).astype(kind)).reshape(-1 if many > 1 else ()),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["v"], axis=1),
        helper.make_node("ConvTranspose", ["d", "v"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1], group=groups),
    ]
    network = onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [1, 6, 7, 5])}, ["y"], constants)
    made = transformed(imported(network))
    assert "float32" not in [dtype for call in calls(made[0], "nn.conv2d") for dtype in input_dtypes(call)]
    data = draw.integers(-50, 77, (1, 6, 7, 5)).astype(np.float32)
    wanted = onnx_models.runtime(network, [data])[0]
    np.testing.assert_allclose(run(made, data), wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


def halves(is_rounded: bool) -> onnx.ModelProto:
    """A convolution in float16 between scales of float16, of inputs that are rounded to 8 bits, or not."""
    draw = np.random.default_rng(0)
    constants = {
        "w": draw.integers(-127, 128, (64, 16, 3, 3)).astype(np.int8),
        "w_scale": draw.uniform(0.001, 0.02, 64).astype(np.float16),
        "scale": np.float16(0.03),
        "y_scale": np.float16(0.1),
        "zero": np.uint8(120),
    }
    nodes = [helper.make_node("DequantizeLinear", ["w", "w_scale"], ["w_real"], axis=0)]
    if is_rounded:
        nodes += [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["x_real"]),
        ]
    nodes.append(helper.make_node("Conv", ["x_real" if is_rounded else "x", "w_real"], ["c"]))
    nodes.append(
        helper.make_node("QuantizeLinear", ["c", "y_scale", "zero"], ["y"])
        if is_rounded
        else helper.make_node("Identity", ["c"], ["y"])
    )
    return onnx_models.model(nodes, {"x": (onnx.TensorProto.FLOAT16, [1, 16, 10, 10])}, ["y"], constants, opset=19)


@pytest.mark.parametrize("is_rounded", [True, False])
def test_scales_of_float16_keep_weights_in_integers_and_rounded_products_exact(is_rounded):
    network = halves(is_rounded)
    made = transformed(imported(network))
    weights = onnx.numpy_helper.to_array(network.graph.initializer[0])
    assert weight_bytes(made) < 1.1 * weights.nbytes
    x = onnx_models.random(1, 16, 10, 10, seed=4).astype(np.float16)
    expected, got = (one.astype(np.float64) for one in (onnx_models.runtime(network, [x])[0], run(made, x)))
    if is_rounded:
        assert [str(call.ty.dtype) for call in calls(made[0], "nn.conv2d")] == ["int32"]
        assert np.mean(np.abs(got - expected) <= 1) >= 0.999
    else:
        np.testing.assert_allclose(got, expected, atol=0.01 * np.abs(expected).max())


def test_a_network_without_integers_stays_unchanged():
    made = imported(drawn_network(0)).module
    from tvmake.quantize.integers.conversion import to_integers

    assert to_integers(made).same_as(made)


def test_a_quantised_network_stays_in_integers_at_float16(tmp_path):
    quantized = quantized_by_onnxruntime(pooled(), 0, tmp_path)
    made = transformed(imported(quantized), PrecisionConfig(base="float16"))
    assert {str(call.ty.dtype) for call in calls(made[0], "nn.conv2d")} == {"int32"}
    expected = onnx_models.runtime(quantized, [image(1)])[0]
    np.testing.assert_allclose(run(made, image(1)), expected, atol=1.01 * output_step(quantized))


@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
def test_convolutions_whose_ranges_are_found_in_each_call_are_exact(kind, tmp_path):
    """Their padding has the zero point, which is computed."""
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["a"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["y"], pads=[0, 1, 2, 0], kernel_shape=[3, 3], group=8),
    ]
    weights = {"w1": onnx_models.random(8, 3, 3, 3, seed=1), "w2": onnx_models.random(8, 1, 3, 3, seed=2)}
    network = onnx_models.model(nodes, {"image": (onnx_models.FLOAT, list(SHAPE))}, ["y"], weights)
    quantized = quantized_dynamically(network, kind, False, tmp_path)
    made = transformed(imported(quantized))
    operands = [input_dtypes(call)[0] for call in calls(made[0], "nn.conv2d")]
    assert [dtype for dtype in operands if dtype != "int32"] == ["uint8", "uint8"]  # int32: sums of windows
    assert weight_bytes(made) <= 2 * sum(value.size for value in weights.values())
    expected = onnx_models.runtime(quantized, [image(7)])[0]
    np.testing.assert_allclose(run(made, image(7)), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_float_weights_that_the_source_rounds_are_stored_in_integers(tmp_path):
    """The form after quantisation-aware training."""
    weight = onnx_models.random(8, 3, 3, 3)
    scale = (np.abs(weight).max(axis=(1, 2, 3)) / 127).astype(np.float32)
    constants = {
        "s": np.float32(0.02), "z": np.uint8(128), "w": weight, "ws": scale, "wz": np.zeros(8, np.int8),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["image", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("QuantizeLinear", ["w", "ws", "wz"], ["wq"], axis=0),
        helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=0),
        helper.make_node("Conv", ["d", "wd"], ["y"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
    ]
    network = onnx_models.model(nodes, {"image": (onnx_models.FLOAT, list(SHAPE))}, ["y"], constants)
    made = transformed(imported(network))
    assert [input_dtypes(call) for call in calls(made[0], "nn.conv2d")] == [["uint8", "int8"]]
    expected = onnx_models.runtime(network, [image(3)])[0]
    np.testing.assert_allclose(run(made, image(3)), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def coverage(network: onnx.ModelProto) -> str:
    return str(transformed(imported(network))[0].attrs[COVERAGE])


def test_the_coverage_of_a_quantised_source_has_reasons_for_float_operators(tmp_path):
    quantized = quantized_by_onnxruntime(wide(), 3, tmp_path)
    everything = coverage(quantized)
    assert everything.startswith("source: ")
    assert "kept in float" not in everything

    known = {"s": np.float32(0.02), "w": onnx_models.random(8, 8, seed=1), "v": np.ones((8, 8), np.int8)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["f"]),
        helper.make_node("DequantizeLinear", ["v", "s"], ["fv"]),
        helper.make_node("MatMul", ["f", "fv"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["c"]),
        helper.make_node("MatMul", ["c", "fv"], ["y"]),
    ]
    sized = onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [2, 8])}, ["y"], {**known, "z": np.uint16(9)}, opset=21)
    line = coverage(sized)
    assert line.startswith("source: 0 of 3 convolutions and matmuls use integers; kept in float: matmul '")
    for reason in ("an operand of it is uint16", "its operands are float", "its input is float"):
        assert f"because {reason} in the source" in line


@pytest.mark.parametrize("index", [np.array(1), np.array([1])])
@pytest.mark.parametrize("operator", ["Gather", "Squeeze"])
def test_operators_that_move_integers_may_remove_axes(operator, index):
    shape = [4, 3] if operator == "Gather" else [4, 1]
    second = index if operator == "Gather" else np.array([1])
    attributes = {"axis": 1} if operator == "Gather" else {}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node(operator, ["d", "i"], ["m"], **attributes),
        helper.make_node("QuantizeLinear", ["m", "s2", "z"], ["n"]),
        helper.make_node("DequantizeLinear", ["n", "s2", "z"], ["y"]),
    ]
    parameters = {"s": np.array(0.1, np.float32), "s2": np.array(0.07, np.float32), "z": np.array(3, np.int8)}
    model = onnx_models.model(nodes, {"x": (onnx_models.FLOAT, shape)}, ["y"], {**parameters, "i": second})
    x = onnx_models.random(*shape)
    np.testing.assert_allclose(run(transformed(imported(model)), x), onnx_models.runtime(model, [x])[0], atol=1e-6)
