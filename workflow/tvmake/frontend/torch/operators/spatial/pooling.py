"""Pooling that TVM's importer gets wrong or lacks: averages over another number than that of their elements, adaptive maxima.

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
        kernel, padding = sizes_per_axis(given["kernel_size"], axes), sizes_per_axis(given.get("padding", 0), axes)
        strides = sizes_per_axis(given["stride"], axes) if given.get("stride") else kernel
        results = node.meta["val"].shape[-axes:]
        sizes = node.args[0].meta["val"].shape[-axes:]
        if any(isinstance(size, torch.SymInt) for size in sizes):
            if given.get("ceil_mode"):
                raise NotImplementedError("pooling with ceil_mode and divisor_override needs fixed dimensions")
            ends = padding
        else:
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
        dtype = dtype_name(node)
        made = emit(relax.op.multiply(averages, relax.const(math.prod(kernel) / divisor, dtype)))
        return emit(relax.op.squeeze(made, list(range(missing)))) if missing else made

    return convert


def _adaptive_maxima(node: fx.Node, importer: Any) -> Any:
    """The maxima alone, axis by axis."""
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
    """Means over axes of which one element is left; those that keep a dynamic length are none."""
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
