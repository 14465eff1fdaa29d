"""Networks for quantisation: random ones, and their forms from ONNX Runtime's quantiser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from tests.frontend.onnx import models as onnx_models

SHAPE = (1, 3, 16, 16)


def image(seed: int) -> np.ndarray:
    """One input."""
    return onnx_models.random(*SHAPE, seed=seed)


def drawn_network(seed: int) -> onnx.ModelProto:
    """Convolutions of drawn kinds with what networks have between them, and a classifier: ``image`` to ``y`` [1, 10]."""
    draw = np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    counter = iter(range(1000))

    def add(operator: str, *inputs: str, **values: Any) -> str:
        name = f"v{next(counter)}"
        nodes.append(helper.make_node(operator, list(inputs), [name], **values))
        return name

    def weight(*shape: int) -> str:
        name = f"w{next(counter)}"
        fan = max(1, int(np.prod(shape[1:])))
        constants[name] = draw.normal(0, 1.5 / np.sqrt(fan), shape).astype(np.float32)
        return name

    value, channels, size = "image", 3, 16
    for _ in range(int(draw.integers(2, 5))):
        before = (value, channels, size)
        kernel, stride = int(draw.choice([1, 3])), int(draw.choice([1, 1, 2])) if size > 4 else 1
        is_depthwise = bool(draw.integers(0, 2)) and channels > 3
        outputs = channels if is_depthwise else int(draw.choice([8, 16]))
        inputs = [value, weight(outputs, 1 if is_depthwise else channels, kernel, kernel)]
        inputs += [weight(outputs)] if draw.integers(0, 2) else []
        value = add(
            "Conv", *inputs, pads=[kernel // 2] * 4, strides=[stride] * 2, group=channels if is_depthwise else 1,
            kernel_shape=[kernel, kernel],
        )  # fmt: skip
        channels, size = outputs, -(-size // stride)
        value = add(str(draw.choice(["Relu", "Sigmoid", "Relu", "Identity"])), value)
        if (channels, size) == before[1:]:
            value = add("Add", value, before[0])
        if size > 4 and draw.integers(0, 2):
            pool = str(draw.choice(["MaxPool", "AveragePool"]))
            value, size = add(pool, value, kernel_shape=[2, 2], strides=[2, 2]), size // 2
        if draw.integers(0, 4) == 0:
            value, channels = add("Concat", value, value, axis=1), 2 * channels
    value = add("Flatten", add("GlobalAveragePool", value))
    nodes.append(helper.make_node("Gemm", [value, weight(channels, 10), weight(10)], ["y"]))
    return onnx_models.model(nodes, {"image": (onnx_models.FLOAT, list(SHAPE))}, ["y"], constants)


class _Images(CalibrationDataReader):
    def __init__(self) -> None:
        self._images: Iterator[dict[str, np.ndarray]] = iter([{"image": image(seed)} for seed in range(8)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._images, None)


def quantized_by_onnxruntime(network: onnx.ModelProto, seed: int, directory: Path) -> onnx.ModelProto:
    """The network in 8 bits, in a form, with types and scales that the seed chooses."""
    draw = np.random.default_rng(seed)
    source, result = directory / "float.onnx", directory / "quantized.onnx"
    onnx_models.save(source, network)
    kinds = [QuantType.QUInt8, QuantType.QInt8]
    activations = kinds[draw.integers(0, 2)]
    quantize_static(
        str(source),
        str(result),
        _Images(),
        quant_format=[QuantFormat.QDQ, QuantFormat.QOperator][draw.integers(0, 2)],
        activation_type=activations,
        weight_type=kinds[draw.integers(0, 2)] if activations is QuantType.QUInt8 else QuantType.QInt8,
        per_channel=bool(draw.integers(0, 2)),
        reduce_range=True,  # ONNX Runtime's sums overflow on CPUs without VNNI otherwise
        extra_options={"ActivationSymmetric": bool(draw.integers(0, 2))},
    )
    return onnx.load(str(result))


def quantized_dynamically(
    network: onnx.ModelProto, kind: QuantType, per_channel: bool, directory: Path
) -> onnx.ModelProto:
    """The network with 8-bit weights, and activations whose scales are computed from each input."""
    source, result = directory / "float.onnx", directory / "quantized.onnx"
    onnx_models.save(source, network)
    quantize_dynamic(str(source), str(result), weight_type=kind, per_channel=per_channel)
    return onnx.load(str(result))
