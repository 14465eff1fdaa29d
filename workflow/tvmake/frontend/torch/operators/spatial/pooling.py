"""Convert pooling that TVM's importer gets wrong or lacks: averages with another divisor, adaptive maxima.

Repair: `torch-pooling`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from tvmake.frontend.torch.operators.spatial.max_pool_indices import sizes_per_axis
from tvmake.frontend.torch.program import dtype_name

from tvm import relax, topi  # isort: skip


STRIDE_POSITION = 2
"""Position of the stride among a pooling's arguments, after the kernel size."""


def _with_default_stride(name: str) -> Callable[[fx.Node, Any], Any]:
    """Use TVM's converter, with the kernel size for an empty stride."""

    def convert(node: fx.Node, importer: Any) -> Any:
        if len(node.args) > STRIDE_POSITION and not node.args[STRIDE_POSITION]:
            node.update_arg(STRIDE_POSITION, node.args[STRIDE_POSITION - 1])
        return importer.create_convert_map()[name](node)

    return convert


def _average(name: str, axes: int) -> Callable[[fx.Node, Any], Any]:
    """Support ``divisor_override``: multiply averages over whole pooling windows by their size, and divide."""

    def convert(node: fx.Node, importer: Any) -> Any:
        names = [argument.name for argument in node.target._schema.arguments]
        arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        divisor = arguments.get("divisor_override")
        if divisor is None:
            return _with_default_stride(name)(node, importer)
        kernel = sizes_per_axis(arguments["kernel_size"], axes)
        padding = sizes_per_axis(arguments.get("padding", 0), axes)
        strides = sizes_per_axis(arguments["stride"], axes) if arguments.get("stride") else kernel
        results = node.meta["val"].shape[-axes:]
        sizes = node.args[0].meta["val"].shape[-axes:]
        if any(isinstance(size, torch.SymInt) for size in sizes):
            if arguments.get("ceil_mode"):
                raise NotImplementedError("pooling with ceil_mode and divisor_override needs fixed dimensions")
            ends = padding
        else:
            # Zeros up to the end of the last pooling window, so that all windows are whole.
            ends = [
                max(0, (int(result) - 1) * stride + width - int(size) - before)
                for result, stride, width, size, before in zip(results, strides, kernel, sizes, padding, strict=True)
            ]
        data = importer.env[node.args[0]]
        missing = axes + 2 - len(data.ty.shape)
        emit = importer.block_builder.emit
        data = emit(relax.op.expand_dims(data, list(range(missing)))) if missing else data
        widths = [0] * 4 + [width for pair in zip(padding, ends, strict=True) for width in pair]
        padded = emit(relax.op.nn.pad(data, widths))
        pool = relax.op.nn.avg_pool2d if axes == 2 else relax.op.nn.avg_pool3d
        averages = emit(pool(padded, kernel, strides, count_include_pad=True))
        dtype = dtype_name(node)
        scaled = emit(relax.op.multiply(averages, relax.const(math.prod(kernel) / divisor, dtype)))
        return emit(relax.op.squeeze(scaled, list(range(missing)))) if missing else scaled

    return convert


def _adaptive_maxima(node: fx.Node, importer: Any) -> Any:
    """The maxima without indices, axis by axis."""
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    rank = len(data.ty.shape)
    if any(isinstance(extent, torch.SymInt) for extent in node.args[0].meta["val"].shape[rank - len(node.args[1]) :]):
        pool = topi.nn.adaptive_pool if len(node.args[1]) == 2 else topi.nn.adaptive_pool3d
        return emit(relax.Tuple([importer.block_builder.emit_te(pool, data, list(node.args[1]), "max")]))
    for axis, result in zip(range(rank - len(node.args[1]), rank), node.args[1], strict=True):
        size = int(node.args[0].meta["val"].shape[axis])
        bounds = [(number * size // result, -(-(number + 1) * size // result)) for number in range(result)]
        parts = [
            relax.op.max(relax.op.strided_slice(data, [axis], [first], [last]), axis, keepdims=True)
            for first, last in bounds
        ]
        data = emit(relax.op.concat(parts, axis) if len(parts) > 1 else parts[0])
    return emit(relax.Tuple([data]))


def _adaptive_average(node: fx.Node, importer: Any) -> Any:
    """Means over axes that become one element. Axes that keep their dynamic size are unchanged."""
    sizes = node.args[0].meta["val"].shape[-len(node.args[1]) :]
    if not any(isinstance(size, fx.Node) for size in node.args[1]):
        return importer.create_convert_map()["adaptive_avg_pool2d.default"](node)
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    for axis, (size, result) in enumerate(zip(sizes, node.meta["val"].shape[-len(sizes) :], strict=True), -len(sizes)):
        if size == result:
            continue
        if result != 1:
            raise NotImplementedError("adaptive_avg_pool2d to a dynamic size other than its input's")
        data = emit(relax.op.mean(data, axis, keepdims=True))
    return data


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "avg_pool2d.default": _average("avg_pool2d.default", 2),
    "avg_pool3d.default": _average("avg_pool3d.default", 3),
    "_adaptive_avg_pool2d.default": _adaptive_average,
    "adaptive_max_pool2d.default": _adaptive_maxima,
    "adaptive_max_pool3d.default": _adaptive_maxima,
    **{
        name: _with_default_stride(name)
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
"""Converters by the operator's name."""
