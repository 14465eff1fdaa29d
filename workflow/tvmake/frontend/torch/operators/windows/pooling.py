"""Pooling that TVM's importer gets wrong or lacks: averages over another number than that of their elements, adaptive maxima.

TVM 0.27 ignores ``divisor_override``, and fails at strides that PyTorch leaves empty.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from torch import fx

from tvmake.frontend.torch.operators.windows.maxima import each

from tvm import relax  # isort: skip


STRIDE = 2
"""Its position among a pooling's arguments, after the window's extents."""


def _strided(name: str) -> Callable[[fx.Node, Any], Any]:
    """TVM's pooling, with the strides spelt out that PyTorch leaves empty: those of the windows."""

    def convert(node: fx.Node, importer: Any) -> Any:
        if len(node.args) > STRIDE and not node.args[STRIDE]:
            node.update_arg(STRIDE, node.args[STRIDE - 1])
        return importer.create_convert_map()[name](node)

    return convert


def _average(name: str, axes: int) -> Callable[[fx.Node, Any], Any]:
    """Sums divided by ``divisor_override``: the averages over all places, times how many are summed up."""

    def convert(node: fx.Node, importer: Any) -> Any:
        names = [argument.name for argument in node.target._schema.arguments]
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        divisor = given.get("divisor_override")
        if divisor is None:
            return _strided(name)(node, importer)
        kernel, padding = each(given["kernel_size"], axes), each(given.get("padding", 0), axes)
        strides = each(given["stride"], axes) if given.get("stride") else kernel
        results = node.meta["val"].shape[-axes:]
        sizes = node.args[0].meta["val"].shape[-axes:]
        # Zeros up to the end of the last window: every window is whole then.
        ends = [
            max(0, (int(result) - 1) * step + window - int(size) - before)
            for result, step, window, size, before in zip(results, strides, kernel, sizes, padding, strict=True)
        ]
        data = importer.env[node.args[0]]
        missing = axes + 2 - len(data.ty.shape)
        emit = importer.block_builder.emit
        data = emit(relax.op.expand_dims(data, list(range(missing)))) if missing else data
        widths = [0] * 4 + [width for pair in zip(padding, ends, strict=True) for width in pair]
        padded = emit(relax.op.nn.pad(data, widths))
        pool = relax.op.nn.avg_pool2d if axes == 2 else relax.op.nn.avg_pool3d
        averages = emit(pool(padded, kernel, strides, count_include_pad=True))
        dtype = str(node.meta["val"].dtype).removeprefix("torch.")
        made = emit(relax.op.multiply(averages, relax.const(math.prod(kernel) / divisor, dtype)))
        return emit(relax.op.squeeze(made, list(range(missing)))) if missing else made

    return convert


def _adaptive_maxima(node: fx.Node, importer: Any) -> Any:
    """The maxima alone, axis by axis."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    rank = len(data.ty.shape)
    for axis, result in zip(range(rank - len(node.args[1]), rank), node.args[1], strict=True):
        size = int(node.args[0].meta["val"].shape[axis])
        bounds = [(number * size // result, -(-(number + 1) * size // result)) for number in range(result)]
        parts = [
            relax.op.max(relax.op.strided_slice(data, [axis], [first], [last]), axis, keepdims=True)
            for first, last in bounds
        ]
        data = emit(relax.op.concat(parts, axis) if len(parts) > 1 else parts[0])
    return emit(relax.Tuple([data]))


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "avg_pool2d.default": _average("avg_pool2d.default", 2),
    "avg_pool3d.default": _average("avg_pool3d.default", 3),
    "adaptive_max_pool2d.default": _adaptive_maxima,
    "adaptive_max_pool3d.default": _adaptive_maxima,
    **{
        name: _strided(name)
        for name in (
            "avg_pool1d.default",
            "max_pool1d.default",
            "max_pool2d.default",
            "max_pool3d.default",
            "max_pool2d_with_indices.default",
            "max_pool3d_with_indices.default",
        )
    },
}
"""By the operator's name."""
