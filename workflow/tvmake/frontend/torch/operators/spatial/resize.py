"""Resizing that TVM's importer gets wrong or lacks: nearest neighbours at ratios that are no integers, antialiasing, sampling.

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
    sizes, results = _extents(node.args[0]), _extents(node)
    if all(result % size == 0 for size, result in zip(sizes, results, strict=True)):
        options = {
            "method": "nearest_neighbor",
            "coordinate_transformation_mode": "asymmetric",
            "rounding_method": "floor",
        }
        return emit(relax.op.image.resize2d(data, tuple(results), layout="NCHW", **options))
    # The ratios that were asked for, where sizes were not: PyTorch steps by them, and not by the ratio of sizes.
    scales = [
        one for given in node.args[2:] if given for one in (given if isinstance(given, list | tuple) else [given])
    ]
    scales = scales if len(scales) == 2 else [None, None]
    for axis, (size, result, scale) in enumerate(zip(sizes, results, scales, strict=True), 2):
        # As PyTorch, in single precision.
        step = np.float32(1 / scale) if scale else np.float32(size) / np.float32(result)
        places = np.minimum(np.floor(np.arange(result, dtype=np.float32) * step).astype(np.int64), size - 1)
        data = emit(relax.op.take(data, relax.const(places), axis=axis))
    return data


def _by_matrices(operator: Callable[..., torch.Tensor]) -> Callable[[fx.Node, Any], Any]:
    """Both axes one after the other, each by the matrix that PyTorch itself makes of unit vectors.

    Args:
        operator: takes a picture, the result's size, whether corners are aligned, and the ratios of height and width.
    """

    def convert(node: fx.Node, importer: Any) -> Any:
        if dynamic_resize.is_dynamic_resize(node):
            return dynamic_resize.interpolate(node, importer)
        sizes, results = _extents(node.args[0]), _extents(node)
        align, *given = node.args[2:]
        ratios: list[Any] = []  # given one by one, or all in a list
        for one in given:
            ratios += one if isinstance(one, list | tuple) else [one]
        down_scale, across_scale = ratios if len(ratios) == 2 else (None, None)
        dtype = node.meta["val"].dtype
        # Two of each: PyTorch 2.13 resizes no picture of one column right.
        rows, columns = (torch.eye(size, dtype=dtype)[None].expand(2, size, size) for size in sizes)
        down = operator(rows.permute(1, 2, 0)[None], [results[0], 2], align, down_scale, None)[0, :, :, 0]
        across = operator(columns.permute(1, 0, 2)[None], [2, results[1]], align, None, across_scale)[0, :, 0, :]
        emit = importer.block_builder.emit
        data = emit(relax.op.matmul(importer.env[node.args[0]], relax.const(across.numpy())))
        return emit(relax.op.matmul(relax.const(np.ascontiguousarray(down.numpy().T)), data))

    return convert


def _bilinear(node: fx.Node, importer: Any) -> Any:
    """TVM's kernel, unless PyTorch steps by ratios that are not those of sizes, or all of an axis becomes one element."""
    if dynamic_resize.is_dynamic_resize(node):
        return dynamic_resize.interpolate(node, importer)
    sizes, results = node.args[0].meta["val"].shape[2:], node.meta["val"].shape[2:]
    align, scales = node.args[2], node.args[3] if len(node.args) > 3 else None
    if align:
        is_usual = 1 not in results
    else:
        is_usual = not scales or all(
            size * scale == result for size, result, scale in zip(sizes, results, scales, strict=True)
        )
    if is_usual:
        return importer.create_convert_map()["upsample_bilinear2d.vec"](node)
    return _by_matrices(aten.upsample_bilinear2d.default)(node, importer)


METHODS, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def _grid_sample(node: fx.Node, importer: Any) -> Any:
    data, grid = (importer.env[operand] for operand in node.args[:2])
    given: list[Any] = [*node.args[2:], None, None, None]
    method, padding, align = (value or 0 for value in given[:3])
    grid = relax.op.permute_dims(grid, [0, 3, 1, 2])
    options = {"method": METHODS[method], "padding_mode": PADDINGS[padding], "align_corners": bool(align)}
    return importer.block_builder.emit(relax.op.image.grid_sample(data, grid, layout="NCHW", **options))


def _extents(node: Any) -> list[int]:
    """Height and width, which have to be fixed."""
    return [int(extent) for extent in node.meta["val"].shape[2:]]


KEPT = (aten.upsample_bicubic2d.vec,)
"""What PyTorch would take apart into lookups of sixteen neighbours, where extents are fixed."""


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "upsample_nearest2d.vec": _nearest,
    "upsample_nearest2d.default": _nearest,
    "grid_sampler_2d.default": _grid_sample,
    "_upsample_bilinear2d_aa.default": _by_matrices(aten._upsample_bilinear2d_aa.default),
    "upsample_bilinear2d.vec": _bilinear,
    "upsample_bicubic2d.vec": _by_matrices(aten.upsample_bicubic2d.default),
    "_upsample_bicubic2d_aa.default": _by_matrices(aten._upsample_bicubic2d_aa.default),
}
"""By the operator's name."""
