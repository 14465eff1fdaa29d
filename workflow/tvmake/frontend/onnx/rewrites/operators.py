"""Replace operators by others that TVM's importer converts correctly; one small function per operator.

A rule returns the names of the values that replace the node's outputs, or None to leave the node unchanged.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvmake.frontend.onnx.graph import Builder, Rule, attributes, optional_input
from tvmake.frontend.onnx.rewrites.ceil_mode import fixed_extents
from tvmake.frontend.onnx.rewrites.function_bodies import expand


def has_output(node: onnx.NodeProto, index: int) -> bool:
    return index < len(node.output) and bool(node.output[index])


def is_float(data_type: int) -> bool:
    return data_type in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)


def batch_normalization(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write out training mode: the importer normalises with the running statistics instead of the batch's."""
    values = attributes(node)
    if not values.get("training_mode", 0):
        return None
    x, scale, bias, mean, variance = node.input
    rank = build.graph.rank(x)
    if rank is None or rank < 2:
        return None
    axes = [0, *range(2, rank)]
    batch_mean = build.reduce("ReduceMean", x, axes)
    deviation = build.op("Sub", x, batch_mean)
    batch_variance = build.reduce("ReduceMean", build.op("Mul", deviation, deviation), axes)

    def per_channel(name: str) -> str:
        return build.reshape(name, [1, -1, *[1] * (rank - 2)])

    epsilon = build.like(values.get("epsilon", 1e-5), x)
    normal = build.op("Div", deviation, build.op("Sqrt", build.op("Add", batch_variance, epsilon)))
    result = build.op("Add", build.op("Mul", normal, per_channel(scale)), per_channel(bias))
    momentum = values.get("momentum", 0.9)

    def running(old: str, new: str) -> str:
        keep, take = build.like(momentum, old), build.like(1 - momentum, old)
        return build.op("Add", build.op("Mul", old, keep), build.op("Mul", build.reshape(new, [-1]), take))

    return [result, running(mean, batch_mean), running(variance, batch_variance)]


def dropout(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Return the data and a boolean mask; the importer's mask is a float, and it ignores training mode.

    Training mode with a ratio other than 0 is random: the node stays and is refused.
    """
    training = build.graph.constant(optional_input(node, 2)) if optional_input(node, 2) else np.array(False)
    ratio = build.graph.constant(optional_input(node, 1)) if optional_input(node, 1) else np.array(0.5)
    if training is None or (bool(training) and (ratio is None or float(ratio) != 0)):
        return None
    mask = ""
    if has_output(node, 1):
        # True everywhere, NaN included: x = x or x != x.
        equal = build.op("Equal", node.input[0], node.input[0])
        mask = build.op("Or", equal, build.op("Not", equal))
    return [node.input[0], mask]


def is_inf(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Support detect_negative and detect_positive, which the importer ignores."""
    values = attributes(node)
    negative, positive = values.get("detect_negative", 1), values.get("detect_positive", 1)
    if build.graph.dtype(node.input[0]) == TensorProto.BFLOAT16:
        # TVM has no such test for bfloat16.
        return [build.op("IsInf", build.cast(node.input[0], TensorProto.FLOAT), **values)]
    if negative and positive:
        return None
    infinite, zero = build.op("IsInf", node.input[0]), build.like(0, node.input[0])
    if not negative and not positive:
        return [build.op("And", infinite, build.op("Not", infinite))]
    return [build.op("And", infinite, build.op("Less" if negative else "Greater", node.input[0], zero))]


def _batch_of_planes(node: onnx.NodeProto, build: Builder) -> tuple[int, ...] | None:
    """An NCHW shape with -1 for a dynamic batch; None for other shapes."""
    shape = build.graph.shape(node.input[0])
    if shape is None or len(shape) != 4 or not all(isinstance(dim, int) for dim in shape[1:]):
        return None
    return (shape[0] if isinstance(shape[0], int) else -1, *shape[1:])  # type: ignore[return-value]


def space_to_depth(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Order the new channels as in ONNX; the importer's order differs."""
    shape = _batch_of_planes(node, build)
    if shape is None:
        return None
    values = attributes(node)
    n, c, h, w = shape
    block = values["blocksize"]
    blocks = build.reshape(node.input[0], [n, c, h // block, block, w // block, block])
    order = [0, 1, 3, 5, 2, 4] if values.get("mode", "DCR") == "CRD" else [0, 3, 5, 1, 2, 4]
    return [build.reshape(build.transpose(blocks, order), [n, c * block * block, h // block, w // block])]


def eye_like(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Replace by a constant if the shape is fixed; the importer refuses a dtype other than the input's."""
    shape = build.graph.static_shape(node.input[0])
    if shape is None:
        return None
    values = attributes(node)
    dtype = helper.tensor_dtype_to_np_dtype(values.get("dtype", build.graph.dtype(node.input[0]) or TensorProto.FLOAT))
    rows, columns = shape
    return [build.const(np.eye(rows, columns, k=values.get("k", 0)), dtype)]


def power(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Cast both operands to one float dtype, which TVM needs; the result has the base's dtype, as in ONNX."""
    base, exponent = node.input
    kinds = build.graph.dtype(base), build.graph.dtype(exponent)
    if not all(kinds) or (kinds[0] == kinds[1] and is_float(kinds[0])):
        return None
    if is_float(kinds[0]):
        return [build.op("Pow", base, build.cast(exponent, kinds[0]))]
    # Doubles represent every power below 2**53 exactly, but pow() may be off by an ulp: round.
    result = build.op("Pow", build.cast(base, TensorProto.DOUBLE), build.cast(exponent, TensorProto.DOUBLE))
    whole = build.op("Round", result) if not is_float(kinds[1]) else result
    return [build.cast(whole, kinds[0])]


def prelu(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write out the definition; with some slope shapes the importer's result fails to build."""
    x, slope = node.input
    return [build.op("Where", build.op("Less", x, build.like(0, x)), build.op("Mul", slope, x), x)]


def exponential_linear(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write out inputs other than float32: the importer's constants are float32."""
    return None if build.graph.dtype(node.input[0]) == TensorProto.FLOAT else expand(node, build)


def celu(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write out with a scalar alpha; ONNX's function body makes it a list of one element."""
    alpha = build.like(attributes(node).get("alpha", 1.0), node.input[0])
    return [build.op("Mul", alpha, build.op("Elu", build.op("Div", node.input[0], alpha)))]


def compress(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Replace a constant condition by a Gather of its indices; the importer's indices depend on the data."""
    condition, axis = build.graph.constant(node.input[1]), attributes(node).get("axis")
    if condition is None:
        return None
    data = build.reshape(node.input[0], [-1]) if axis is None else node.input[0]
    return [build.op("Gather", data, build.ints(np.flatnonzero(condition).tolist()), axis=axis or 0)]


def layer_normalization(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Expand nodes with a second or third output, for which the importer returns placeholders."""
    return expand(node, build) if has_output(node, 1) or has_output(node, 2) else None


def rms_normalization(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Expand norms over more than the last axis: the importer's result fails to build."""
    rank = build.graph.rank(node.input[0])
    axis = attributes(node).get("axis", -1)
    return None if axis in (-1, (rank or 0) - 1) and rank != 1 else expand(node, build)


def lp_normalization(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Divide x by its norm; 0 if the norm is 0. TVM has no importer."""
    values = attributes(node)
    operator = "ReduceL1" if values.get("p", 2) == 1 else "ReduceL2"
    norm = build.reduce(operator, node.input[0], [values.get("axis", -1)])
    zero = build.like(0, node.input[0])
    is_zero = build.op("Equal", norm, zero)
    safe = build.op("Where", is_zero, build.like(1, node.input[0]), norm)
    return [build.op("Where", is_zero, zero, build.op("Div", node.input[0], safe))]


def conv_transpose(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Replace output_shape, which the importer ignores, by pads, with the formula of ONNX's specification."""
    values = attributes(node)
    output_shape = values.get("output_shape")
    extents, weight = fixed_extents(build.graph, node.input[0]), build.graph.static_shape(node.input[1])
    if not output_shape or extents is None or weight is None:
        return None
    count = len(extents)
    kernel = values.get("kernel_shape", weight[2:])
    strides, dilations = values.get("strides", [1] * count), values.get("dilations", [1] * count)
    extra = list(values.get("output_padding", [0] * count))
    begins, ends = [], []
    for axis in range(count):
        span = (kernel[axis] - 1) * dilations[axis] + 1
        full = strides[axis] * (extents[axis] - 1) + extra[axis] + span
        total = full - output_shape[-count:][axis]
        if total < 0:
            extra[axis], total = extra[axis] - total, 0
        half = total // 2 if values.get("auto_pad", "NOTSET") == "SAME_UPPER" else total - total // 2
        begins.append(half)
        ends.append(total - half)
    if any(pad >= stride for pad, stride in zip(extra, strides, strict=True)):
        return None
    options = {key: value for key, value in values.items() if key not in ("output_shape", "auto_pad", "pads")}
    options |= {"pads": [*begins, *ends], "output_padding": extra}
    return [build.op("ConvTranspose", *node.input, **options)]


def modulo(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write out the float modulo with the divisor's sign (fmod=0): TVM's gives NaN for infinite divisors."""
    x, y = node.input
    if attributes(node).get("fmod", 0) or not is_float(build.graph.dtype(x)):
        return None
    zero = build.like(0, x)
    rest = build.op("Mod", x, y, fmod=1)
    is_zero = build.op("Equal", rest, zero)
    same_sign = build.op("Not", build.op("Xor", build.op("Less", rest, zero), build.op("Less", y, zero)))
    keep = build.op("Or", is_zero, same_sign)
    return [build.op("Where", keep, rest, build.op("Add", rest, y))]


def bit_shift(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Clamp run-time shifts: shifts by less than 0 or at least the width are undefined in compiled code.

    ONNX gives 0 for them, or the sign (-1).
    """
    x, by = node.input
    kind = build.graph.numpy_dtype(x)
    width = kind.itemsize * 8
    known = build.graph.constant(by)
    if (known is not None and ((known >= 0) & (known < width)).all()) or node.name.endswith(_SETTLED):
        return None
    zero, bound = build.like(0, x), build.like(width, x)
    outside = build.op("Not", build.op("Less", by, bound))
    fill = zero
    if kind.kind == "i":
        outside = build.op("Or", outside, build.op("Less", by, zero))
        if attributes(node)["direction"] == "RIGHT":
            fill = build.op("Where", build.op("Less", x, zero), build.like(-1, x), zero)
    shifted = build.op("BitShift", x, build.op("Where", outside, zero, by), **attributes(node))
    build.nodes[-1].name += _SETTLED
    return [build.op("Where", outside, fill, shifted)]


_SETTLED = "_settled"
"""Suffix of the names of nodes that a rule has emitted and must not rewrite again."""


def non_max_suppression(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write out ONNX's thresholds: suppress above the IoU threshold, 0 by default; keep all scores by default. Boxes get corners.

    TVM also suppresses at the threshold, and the importer's defaults are 0.5 for the IoU and 0 for the score.
    """
    values = attributes(node)
    is_centered = values.pop("center_point_box", 0)
    threshold = build.graph.constant(node.input[3]) if optional_input(node, 3) else np.zeros(1, np.float32)
    if node.name.endswith(_SETTLED) or (threshold is None and not is_centered):
        return None
    boxes = _corners(node.input[0], build) if is_centered else node.input[0]
    if threshold is None:
        return [build.op("NonMaxSuppression", boxes, *node.input[1:])]
    above = build.const(np.nextafter(threshold.reshape(1), np.float32(np.inf)), np.float32)
    count = optional_input(node, 2) or build.ints([0])
    if (limit := build.graph.constant(count)) is not None:
        count = build.const(np.minimum(limit, np.iinfo(np.int32).max), np.int64)  # TVM counts boxes in int32
    score = optional_input(node, 4) or build.const([np.finfo(np.float32).min], np.float32)
    result = build.op("NonMaxSuppression", boxes, node.input[1], count, above, score, **values)
    build.nodes[-1].name += _SETTLED
    return [result]


def _corners(boxes: str, build: Builder) -> str:
    """Boxes (y1, x1, y2, x2) of boxes (x centre, y centre, width, height).

    A negative width or height becomes 0: in ONNX Runtime such a box overlaps no other, while TVM would exchange its corners.
    """
    kind = build.graph.numpy_dtype(boxes)
    centre = build.op("Gather", boxes, build.const([1, 0], np.int64), axis=2)
    size = build.op("Gather", boxes, build.const([3, 2], np.int64), axis=2)
    half = build.op("Mul", build.op("Max", size, build.const(0, kind)), build.const(0.5, kind))
    return build.op("Concat", build.op("Sub", centre, half), build.op("Add", centre, half), axis=2)


def reverse_sequence(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Gather with indices computed from the lengths. TVM has no importer."""
    values = attributes(node)
    x, lengths = node.input
    rank = build.graph.rank(x)
    if rank is None:
        return None
    time, batch = values.get("time_axis", 0), values.get("batch_axis", 1)

    def along(axis: int) -> list[int]:
        return [-1 if index == axis else 1 for index in range(rank)]

    shape, (zero, one) = build.op("Shape", x), (build.const(number, np.int64) for number in (0, 1))
    steps = build.op("Range", zero, build.op("Gather", shape, build.const(time, np.int64)), one)
    steps = build.reshape(steps, along(time))
    length = build.reshape(build.cast(lengths, TensorProto.INT64), along(batch))
    mirrored = build.op("Sub", build.op("Sub", length, one), steps)
    index = build.op("Where", build.op("Less", steps, length), mirrored, steps)
    result = build.op("GatherElements", x, build.op("Expand", index, shape), axis=time)
    build.graph.same_shapes[result] = x
    return [result]


def equal(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Compare booleans by a negated exclusive or. Repair: `onnx-equal-booleans`."""
    if build.graph.dtype(node.input[0]) != TensorProto.BOOL:
        return None
    return [build.op("Not", build.op("Xor", *node.input))]


def hardmax(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write 1 at the first maximum along a dynamic axis; TVM's importer needs a fixed axis."""
    x = node.input[0]
    shape = build.graph.shape(x)
    is_by_axis = build.graph.opset >= 13
    if shape is None or not is_by_axis or isinstance(shape[axis := attributes(node).get("axis", -1)], int):
        return None
    first = build.op("ArgMax", x, axis=axis, keepdims=1)
    zero, one = build.const(0, np.int64), build.const(1, np.int64)
    count = build.squeeze(build.slice(build.op("Shape", x), 0, axis % len(shape), axis % len(shape) + 1), [0])
    positions = build.op("Range", zero, count, one)
    positions = build.reshape(positions, [-1, *[1] * (len(shape) - 1 - axis % len(shape))])
    return [build.cast(build.op("Equal", first, positions), build.graph.dtype(x))]


def triangle(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Return a tensor without elements unchanged, for which TVM's importer fails."""
    return [node.input[0]] if 0 in (build.graph.shape(node.input[0]) or ()) else None


def col2im(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write as a transposed convolution whose kernel moves each column entry to its position. TVM has no importer."""
    values = attributes(node)
    shape = build.graph.static_shape(node.input[0])
    image, block = (build.graph.constant(name) for name in node.input[1:3])
    if shape is None or image is None or block is None or len(image) > 2:
        return None
    count = len(image)
    strides, dilations = values.get("strides", [1] * count), values.get("dilations", [1] * count)
    pads = values.get("pads", [0] * 2 * count)
    size = int(np.prod(block))
    channels = shape[1] // size
    spans = [(int(block[i]) - 1) * dilations[i] + 1 for i in range(count)]
    steps = [(int(image[i]) + pads[i] + pads[count + i] - spans[i]) // strides[i] + 1 for i in range(count)]
    extra = [int(image[i]) + pads[i] + pads[count + i] - (steps[i] - 1) * strides[i] - spans[i] for i in range(count)]
    kernel = np.eye(size).reshape(size, 1, *[int(extent) for extent in block])
    weight = build.const(np.tile(kernel, (channels, *[1] * (count + 1))), build.graph.numpy_dtype(node.input[0]))
    columns = build.reshape(node.input[0], [shape[0], shape[1], *steps])
    return [
        build.op(
            "ConvTranspose", columns, weight, group=channels, strides=strides, dilations=dilations, pads=pads,
            output_padding=extra, kernel_shape=[int(extent) for extent in block],
        )
    ]  # fmt: skip


RULES: dict[str, Rule] = {
    "BatchNormalization": batch_normalization,
    "Dropout": dropout,
    "IsInf": is_inf,
    "SpaceToDepth": space_to_depth,
    "EyeLike": eye_like,
    "Pow": power,
    "PRelu": prelu,
    "Celu": celu,
    "Compress": compress,
    "Elu": exponential_linear,
    "Selu": exponential_linear,
    "LayerNormalization": layer_normalization,
    "RMSNormalization": rms_normalization,
    "LpNormalization": lp_normalization,
    "ConvTranspose": conv_transpose,
    "ReverseSequence": reverse_sequence,
    "Col2Im": col2im,
    "Mod": modulo,
    "BitShift": bit_shift,
    "Equal": equal,
    "Hardmax": hardmax,
    "Trilu": triangle,
    "NonMaxSuppression": non_max_suppression,
}
