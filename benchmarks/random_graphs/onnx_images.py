"""Steps of ONNX networks on images, signals and volumes."""

from random import Random
from typing import Any

import numpy as np
from torch import Tensor

from .images import CHANNELS, divisors, is_float
from .network import Kind, Options
from .onnx_nodes import Node, integers, plain, weights


def _padding(rng: Random, axes: int, most: int) -> Options:
    if rng.random() < 0.2:
        return {"auto_pad": rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))}
    return {"pads": [rng.randint(0, most) for _ in range(2 * axes)]}


def _strides(rng: Random, axes: int) -> list[int]:
    return [rng.choice((1, 1, 2, 3)) for _ in range(axes)]


def _conv(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3, 4, 5):
        return None
    axes, groups = x.dim() - 2, 1
    out = rng.choice(CHANNELS)
    if rng.random() < 0.3:
        groups = rng.choice(divisors(x.shape[1]))
        out = groups * rng.choice((1, 2))
    options = {"out": out, "group": groups, "bias": rng.random() < 0.7, **_padding(rng, axes, 2)}
    kernel = [rng.choice((1, 2, 3, 3)) for _ in range(axes)]
    dilations = {} if "auto_pad" in options else {"dilations": [rng.choice((1, 1, 1, 2)) for _ in range(axes)]}
    return {**options, **dilations, "kernel_shape": kernel, "strides": _strides(rng, axes)}


def _make_conv(x: Tensor, out: int, bias: bool, **options: Any) -> Node:
    kernel = weights(out, x.shape[1] // options["group"], *options["kernel_shape"])
    return Node("Conv", [0, kernel, *([weights(out)] if bias else [])], **options)


def _transposed(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3, 4):
        return None
    axes, groups = x.dim() - 2, rng.choice((1, 1, *divisors(x.shape[1])))
    strides = _strides(rng, axes)
    padding = rng.choice(({"pads": [rng.randint(0, 1) for _ in range(2 * axes)]}, {"auto_pad": "SAME_UPPER"}))
    options: Options = {"out": groups * rng.choice((1, 2, 3, 4)), "group": groups, **padding}
    more = {} if "auto_pad" in options else {"output_padding": [rng.randrange(stride) for stride in strides]}
    return {**options, **more, "kernel_shape": [rng.choice((2, 3, 4)) for _ in range(axes)], "strides": strides}


def _make_transposed(x: Tensor, out: int, **options: Any) -> Node:
    kernel = weights(x.shape[1], out // options["group"], *options["kernel_shape"])
    return Node("ConvTranspose", [0, kernel, weights(out)], **options)


def _pool(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3, 4, 5):
        return None
    axes = x.dim() - 2
    operator = rng.choice(("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"))
    options: Options = {
        "operator": operator,
        "kernel_shape": [rng.choice((2, 3)) for _ in range(axes)],
        "strides": _strides(rng, axes),
        **_padding(rng, axes, 1),
    }
    if any(kernel > extent for kernel, extent in zip(options["kernel_shape"], x.shape[2:], strict=True)):
        return None  # ONNX does not define kernel windows larger than the operand
    if "pads" in options and rng.random() < 0.4:
        options["ceil_mode"] = 1
    if operator == "AveragePool" and rng.random() < 0.5:
        options["count_include_pad"] = 1
    return options


def _norm(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 3, 4) or x[0, 0].numel() < 4:
        return None
    return {"operator": rng.choice(("InstanceNormalization", "BatchNormalization", "LRN", "LayerNormalization"))}


def _make_norm(x: Tensor, operator: str) -> Node:
    channels = x.shape[1]
    match operator:
        case "LRN":
            return Node(operator, size=3, alpha=0.02)
        case "LayerNormalization":
            shape = tuple(x.shape[1:]) if channels % 2 else (x.shape[-1],)
            return Node(operator, [0, 1 + weights(*shape), weights(*shape)], axis=-len(shape))
        case "BatchNormalization":
            spread = np.abs(weights(channels)) + 0.5
            return Node(operator, [0, 1 + weights(channels), weights(channels), weights(channels), spread])
    return Node(operator, [0, 1 + weights(channels), weights(channels)])


def _resize(rng: Random, x: Tensor) -> Options | None:
    if not is_float(x, 4):
        return None
    mode = rng.choice(("nearest", "nearest", "linear", "linear", "cubic"))
    transforms = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    options: Options = {"mode": mode, "coordinate_transformation_mode": rng.choice(transforms)}
    if mode == "nearest":
        options["nearest_mode"] = rng.choice(("round_prefer_floor", "floor", "ceil", "round_prefer_ceil"))
    # By scales that give no whole extent, ONNX's own cases and ONNX Runtime align corners differently.
    if rng.random() < 0.5 and options["coordinate_transformation_mode"] != "align_corners":
        return {**options, "scales": (1.0, 1.0, rng.choice((1.0, 2.0, 3.0, 1.5, 0.5)), rng.choice((2.0, 2.0, 0.6)))}
    return {**options, "sizes": (x.shape[0], x.shape[1], rng.randint(2, 12), rng.randint(2, 12))}


def _make_resize(x: Tensor, scales: Any = None, sizes: Any = None, **options: Any) -> Node:
    if sizes is not None:
        return Node("Resize", [0, None, None, integers(*sizes)], **options)
    return Node("Resize", [0, None, np.array(scales, np.float32)], **options)


KINDS: dict[str, Kind] = {
    "Conv": Kind(_conv, _make_conv, weight=9),
    "ConvTranspose": Kind(_transposed, _make_transposed, weight=1.5),
    "pool": Kind(_pool, plain, weight=3),
    "norm": Kind(_norm, _make_norm, weight=2.5),
    "Resize": Kind(_resize, _make_resize, weight=2),
}
"""By name."""
