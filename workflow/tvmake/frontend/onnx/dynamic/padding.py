"""Padding that depends on dynamic dimensions: "auto_pad", and widths that the network computes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm

from tvmake.frontend.equal_sizes import EqualSizes
from tvmake.frontend.lowering.resize import compute_along, simplify_extent, whole
from tvmake.frontend.onnx.rewrites.auto_pad import AUTOMATIC
from tvmake.ir.dimensions import Extent, is_known

from tvm import relax, te, tirx, topi  # isort: skip


class Windows:
    """Kernel windows at strides over a tensor with dynamic dimensions after batch and channels, padded as ``auto_pad`` requires."""

    def __init__(self, data: Any, sizes: Sequence[int], attributes: Mapping[str, Any]):
        rank = len(sizes)
        self.extents = list(data.ty.shape)[2:]
        self.strides = list(attributes.get("strides", [1] * rank))
        self.sizes = list(sizes)
        self.is_lower = attributes["auto_pad"] == b"SAME_LOWER"

    def total(self, extents: Sequence[Extent]) -> list[Extent]:
        """The padded lengths of the axes; the windows cover them completely."""
        return [
            simplify_extent((extent - 1) // stride * stride + size)
            for extent, stride, size in zip(extents, self.strides, self.sizes, strict=True)
        ]

    def positions(self, at: Sequence[Any], extents: Sequence[Extent]) -> list[Any]:
        """The indices in the tensor for an index in the padded tensor."""
        positions = []
        for index, extent, total in zip(at, extents, self.total(extents), strict=True):
            missing = tirx.max(total - extent, whole(0))
            positions.append(index - (missing - missing // 2 if self.is_lower else missing // 2))
        return positions

    def is_within(self, positions: Sequence[Any], extents: Sequence[Extent]) -> Any:
        """Whether indices are within the tensor."""
        pairs = zip(positions, extents, strict=True)
        return tirx.all(*(bound for at, extent in pairs for bound in (at >= whole(0), at < extent)))

    def pad(self, builder: Any, data: Any, value: Any) -> Any:
        """The padded tensor."""

        def compute(tensor: Any) -> Any:
            extents = list(tensor.shape)[2:]

            def element(batch: Any, channel: Any, *at: Any) -> Any:
                positions = self.positions(at, extents)
                element = tensor(batch, channel, *positions)
                return tirx.if_then_else(self.is_within(positions, extents), element, value)

            shape = [*tensor.shape[:2], *self.total(extents)]
            return te.compute(shape, element, name="pad", tag=f"{topi.tag.INJECTIVE},pad")

        return builder.emit_te(compute, data, primfunc_name_hint="pad")

    def shares(self, builder: Any) -> Any:
        """A tensor [1, 1, …] that is 1 at elements of the tensor and 0 in the padding."""

        def value(_batch: Any, _channel: Any, *at: Any) -> Any:
            is_within = self.is_within(self.positions(at, self.extents), self.extents)
            return tirx.Select(is_within, tirx.const(1, "float32"), tirx.const(0, "float32"))

        return compute_along(builder, (1, 1, *self.total(self.extents)), value, "pad_shares", self.extents)


def _windows(inputs: Sequence[Any], sizes: Sequence[int], attributes: Mapping[str, Any]) -> Windows | None:
    """The windows of an operator; None if their padding is explicit or follows from fixed dimensions."""
    is_automatic = attributes.get("auto_pad", b"NOTSET").decode() in AUTOMATIC
    shape = inputs[0].ty.shape if is_automatic else None
    if shape is None or len(sizes) not in POOLS or all(map(is_known, list(shape)[2:])):
        return None
    return Windows(inputs[0], sizes, attributes)


POOLS = {
    1: (relax.op.nn.max_pool1d, relax.op.nn.avg_pool1d, relax.op.nn.conv1d),
    2: (relax.op.nn.max_pool2d, relax.op.nn.avg_pool2d, relax.op.nn.conv2d),
    3: (relax.op.nn.max_pool3d, relax.op.nn.avg_pool3d, relax.op.nn.conv3d),
}
"""Operators on padded tensors, by the number of spatial axes."""


def max_pool(builder: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any | None:
    """A MaxPool with automatic padding; None leaves it to TVM's importer."""
    windows = _windows(inputs, attributes["kernel_shape"], attributes)
    if windows is None:
        return None
    lowest = tirx.min_value(str(inputs[0].ty.dtype.dtype))
    pool = POOLS[len(windows.sizes)][0]
    return pool(windows.pad(builder, inputs[0], lowest), windows.sizes, windows.strides)


def average_pool(builder: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any | None:
    """An AveragePool with automatic padding; None leaves it to TVM's importer."""
    windows = _windows(inputs, attributes["kernel_shape"], attributes)
    if windows is None:
        return None
    pool, dtype = POOLS[len(windows.sizes)][1], str(inputs[0].ty.dtype.dtype)
    padded = windows.pad(builder, inputs[0], tirx.const(0, dtype))
    averages = builder.emit(pool(padded, windows.sizes, windows.strides))
    if attributes.get("count_include_pad"):
        return averages
    shares = builder.emit(pool(windows.shares(builder), windows.sizes, windows.strides))
    return relax.op.divide(averages, shares if dtype == "float32" else relax.op.astype(shares, dtype))


def convolution(builder: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any | None:
    """A Conv with automatic padding; None leaves it to TVM's importer."""
    data, weight = inputs[:2]
    dilations = attributes.get("dilations", [1] * (weight.ty.ndim - 2))
    kernel = [int(extent) for extent in list(weight.ty.shape)[2:]]
    sizes = [(extent - 1) * dilation + 1 for extent, dilation in zip(kernel, dilations, strict=True)]
    windows = _windows(inputs, sizes, attributes)
    if windows is None or all(stride == 1 for stride in windows.strides):
        return None
    padded = windows.pad(builder, data, tirx.const(0, str(data.ty.dtype.dtype)))
    convolve = POOLS[len(sizes)][2]
    groups = attributes.get("group", 1)
    result = convolve(padded, weight, strides=windows.strides, dilation=list(dilations), groups=groups)
    if len(inputs) < 3 or inputs[2] is None:
        return result
    bias = builder.emit(relax.op.reshape(inputs[2], [1, -1, *[1] * len(sizes)]))
    return relax.op.add(builder.emit(result), bias)


def space_to_depth(builder: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """Move blocks of pixels to channels; TVM's importer orders the channels differently from ONNX."""
    block = attributes["blocksize"]
    batch, channels, *sizes = inputs[0].ty.shape
    # One check per size, so that the error names it.
    wanted = [size // block * block for size in sizes]
    builder.equal_sizes.extend(EqualSizes(*pair, builder.operator) for pair in zip(sizes, wanted, strict=True))
    data = builder.match_cast(inputs[0], relax.TensorType([batch, channels, *wanted], inputs[0].ty.dtype))
    height, width = (size // block for size in sizes)
    blocks = builder.emit(relax.op.reshape(data, [batch, channels, height, block, width, block]))
    order = [0, 1, 3, 5, 2, 4] if attributes.get("mode") == b"CRD" else [0, 3, 5, 1, 2, 4]
    transposed = builder.emit(relax.op.permute_dims(blocks, order))
    return relax.op.reshape(transposed, [batch, channels * block * block, height, width])


def _mirror(position: Any, extent: Any) -> Any:
    last = extent - whole(1)
    return last - tirx.abs(last - tirx.abs(position))


POSITIONS: Mapping[bytes, Callable[[Any, Any], Any]] = {
    b"constant": lambda position, extent: position,
    b"edge": lambda position, extent: tirx.max(tirx.min(position, extent - whole(1)), whole(0)),
    b"reflect": _mirror,
    b"wrap": tirx.floormod,
}
"""By mode, the index of the element that a padded tensor has at a position, which is negative before the first element."""


def pad(builder: Any, inputs: Sequence[Any], widths: np.ndarray, attributes: Mapping[str, Any]) -> Any | None:
    """A Pad whose widths include expressions; None leaves it to TVM's importer.

    A negative width removes elements. ``reflect`` needs widths below the length, like ONNX Runtime.
    """
    data, mode = inputs[0], attributes.get("mode", b"constant")
    value, axes = (inputs[index] if index < len(inputs) else None for index in (2, 3))
    if mode not in POSITIONS or (axes is not None and not isinstance(axes, tvm.ir.GenericConst)):
        return None
    rank = data.ty.ndim
    before, after = [whole(0)] * rank, [whole(0)] * rank
    numbers = axes.value.numpy().tolist() if axes is not None else range(rank)
    for index, axis in enumerate(numbers):
        before[axis], after[axis] = whole(widths[index]), whole(widths[len(numbers) + index])
    if value is None or isinstance(value, tvm.ir.GenericConst):
        number = float(value.value.numpy().item()) if value is not None else 0.0
        if mode in PADDINGS:
            return builder.emit_te(PADDINGS[mode], data, before, after, *([number] if mode == b"constant" else []))
        value = relax.const(number, data.ty.dtype)

    def compute(tensor: Any, filling: Any) -> Any:
        def element(*at: Any) -> Any:
            positions = [index - start for index, start in zip(at, before, strict=True)]
            elements = tensor(*(POSITIONS[mode](*pair) for pair in zip(positions, tensor.shape, strict=True)))
            if mode != b"constant":
                return elements
            pairs = zip(positions, tensor.shape, strict=True)
            is_within = tirx.all(
                *(bound for position, size in pairs for bound in (position >= whole(0), position < size))
            )
            return tirx.if_then_else(is_within, elements, filling(*[whole(0)] * len(filling.shape)))

        shape = [start + size + end for start, size, end in zip(before, tensor.shape, after, strict=True)]
        return te.compute(shape, element, name="pad", tag=f"{topi.tag.INJECTIVE},pad")

    return builder.emit_te(compute, data, value, primfunc_name_hint="pad")


PADDINGS = {b"constant": topi.nn.pad, b"edge": topi.nn.replicate_pad, b"wrap": topi.nn.circular_pad}
