"""Convert resizes that TVM's importer gets wrong or lacks: nearest at fractional ratios, antialiasing, grid sampling.

Repair: `torch-resizing`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import fx

from tvmake.frontend.torch.operators.spatial import dynamic_resize

from tvm import relax  # isort: skip

aten = torch.ops.aten


def _nearest(node: fx.Node, importer: Any) -> Any:
    if dynamic_resize.is_dynamic_resize(node):
        return dynamic_resize.resize_to_nearest(node, importer)
    data = importer.env[node.args[0]]
    emit = importer.block_builder.emit
    sizes, results = _height_and_width(node.args[0]), _height_and_width(node)
    if all(result % size == 0 for size, result in zip(sizes, results, strict=True)):
        options = {
            "method": "nearest_neighbor",
            "coordinate_transformation_mode": "asymmetric",
            "rounding_method": "floor",
        }
        return emit(relax.op.image.resize2d(data, tuple(results), layout="NCHW", **options))
    # If ratios are requested instead of sizes, PyTorch uses them, and not the ratio of the sizes.
    scales = [
        scale
        for argument in node.args[2:]
        if argument
        for scale in (argument if isinstance(argument, list | tuple) else [argument])
    ]
    scales = scales if len(scales) == 2 else [None, None]
    for axis, (size, result, scale) in enumerate(zip(sizes, results, scales, strict=True), 2):
        # In single precision, as in PyTorch.
        step = np.float32(1 / scale) if scale else np.float32(size) / np.float32(result)
        indices = np.minimum(np.floor(np.arange(result, dtype=np.float32) * step).astype(np.int64), size - 1)
        data = emit(relax.op.take(data, relax.const(indices), axis=axis))
    return data


def _resize_by_matmul(operator: Callable[..., torch.Tensor]) -> Callable[[fx.Node, Any], Any]:
    """Resize each axis by a matmul with the matrix that PyTorch's operator computes from unit vectors.

    Args:
        operator: takes an image, the result's size, whether corners are aligned, and the ratios of height and width.
    """

    def convert(node: fx.Node, importer: Any) -> Any:
        if dynamic_resize.is_dynamic_resize(node):
            return dynamic_resize.interpolate(node, importer)
        sizes, results = _height_and_width(node.args[0]), _height_and_width(node)
        align, *arguments = node.args[2:]
        ratios: list[Any] = []  # two arguments, or one list
        for argument in arguments:
            ratios += argument if isinstance(argument, list | tuple) else [argument]
        down_scale, across_scale = ratios if len(ratios) == 2 else (None, None)
        dtype = node.meta["val"].dtype
        # Two rows and columns. Repair: `one-column-resize`.
        rows, columns = (torch.eye(size, dtype=dtype)[None].expand(2, size, size) for size in sizes)
        down = operator(rows.permute(1, 2, 0)[None], [results[0], 2], align, down_scale, None)[0, :, :, 0]
        across = operator(columns.permute(1, 0, 2)[None], [2, results[1]], align, None, across_scale)[0, :, 0, :]
        emit = importer.block_builder.emit
        data = emit(relax.op.matmul(importer.env[node.args[0]], relax.const(across.numpy())))
        return emit(relax.op.matmul(relax.const(np.ascontiguousarray(down.numpy().T)), data))

    return convert


def _bilinear(node: fx.Node, importer: Any) -> Any:
    """TVM's kernel, unless ratios differ from those of the sizes, or an aligned axis becomes one element."""
    if dynamic_resize.is_dynamic_resize(node):
        return dynamic_resize.interpolate(node, importer)
    sizes, results = node.args[0].meta["val"].shape[2:], node.meta["val"].shape[2:]
    align, scales = node.args[2], node.args[3] if len(node.args) > 3 else None
    if align:
        is_supported = 1 not in results
    else:
        is_supported = not scales or all(
            size * scale == result for size, result, scale in zip(sizes, results, scales, strict=True)
        )
    if is_supported:
        return importer.create_convert_map()["upsample_bilinear2d.vec"](node)
    return _resize_by_matmul(aten.upsample_bilinear2d.default)(node, importer)


METHODS, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _grid_sample(node: fx.Node, importer: Any) -> Any:
    data, grid = (importer.env[operand] for operand in node.args[:2])
    arguments: list[Any] = [*node.args[2:], None, None, None]
    method, padding, align = (value or 0 for value in arguments[:3])
    grid = relax.op.permute_dims(grid, [0, 3, 1, 2])
    options = {"method": METHODS[method], "padding_mode": PADDINGS[padding], "align_corners": bool(align)}
    return importer.block_builder.emit(relax.op.image.grid_sample(data, grid, layout="NCHW", **options))


def _height_and_width(node: Any) -> list[int]:
    """Height and width, which must be fixed."""
    return [int(extent) for extent in node.meta["val"].shape[2:]]


UNDECOMPOSED = (aten.upsample_bicubic2d.vec,)
"""Operators of fixed shape that PyTorch would decompose into lookups of sixteen neighbours."""


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "upsample_nearest2d.vec": _nearest,
    "upsample_nearest2d.default": _nearest,
    "grid_sampler_2d.default": _grid_sample,
    "_upsample_bilinear2d_aa.default": _resize_by_matmul(aten._upsample_bilinear2d_aa.default),
    "upsample_bilinear2d.vec": _bilinear,
    "upsample_bicubic2d.vec": _resize_by_matmul(aten.upsample_bicubic2d.default),
    "_upsample_bicubic2d_aa.default": _resize_by_matmul(aten._upsample_bicubic2d_aa.default),
}
"""Converters by the operator's name."""
