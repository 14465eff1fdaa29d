"""Convert resizes of dynamic dimensions. Coordinates are computed at run time in float32, as in PyTorch's CPU kernels (``UpSample.h``)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import fx

from tvmake.frontend.lowering import resize
from tvmake.frontend.lowering.resize import Position, ResizedAxis, clamp, scale_extent, simplify_extent, single, whole
from tvmake.ir.dimensions import is_known

from tvm import tirx  # isort: skip

aten = torch.ops.aten

CUBIC = resize.cubic(-0.75)


def _stride(axis: ResizedAxis) -> Any:
    """The distance between two outputs in input elements, float32."""
    return single(1 / axis.scale) if axis.scale else single(axis.extent) / single(axis.size)


def is_dynamic_resize(node: fx.Node) -> bool:
    """Whether a node's input or result has a dynamic dimension other than batch and channels."""
    shapes = node.args[0].meta["val"].shape[2:], node.meta["val"].shape[2:]
    return any(isinstance(extent, torch.SymInt) for shape in shapes for extent in shape)


def _axes(node: fx.Node, importer: Any) -> Iterator[ResizedAxis]:
    shape = list(importer.env[node.args[0]].ty.shape)[2:]
    names = [argument.name for argument in node.target._schema.arguments]
    arguments = dict(zip(names, node.args, strict=False)) | node.kwargs
    scales = arguments.get("scale_factors") or [
        arguments.get(name) for name in ("scales_d", "scales_h", "scales_w", "scales") if name in names
    ]
    sizes = importer._retrieve_args(arguments.get("output_size")) or [None] * len(shape)
    for axis, (extent, size, scale) in enumerate(zip(shape, sizes, scales or [None] * len(shape), strict=True), 2):
        extent = int(extent) if is_known(extent) else extent
        size = scale_extent(extent, scale, "float64") if size is None else simplify_extent(size)
        yield ResizedAxis(axis, extent, int(size) if is_known(size) else size, scale)


def resize_to_nearest(node: fx.Node, importer: Any) -> Any:
    """Resize to the element below the coordinate of each output."""
    data, axes = importer.env[node.args[0]], list(_axes(node, importer))
    if data.ty.ndim == 4 and all(axis.factor for axis in axes):
        return importer.block_builder.emit(resize.repeat_elements(data, axes))
    is_exact = "exact" in node.target.__name__
    for axis in axes:

        def index(at: Any, axis: ResizedAxis = axis) -> Any:
            at_centre = single(at) + single(0.5) if is_exact else single(at)
            below = clamp(tirx.Cast("int64", tirx.floor(at_centre * _stride(axis))), axis.extent)
            is_kept, is_doubled = (tirx.EQ(whole(axis.size), whole(axis.extent) * whole(times)) for times in (1, 2))
            return below if is_exact else tirx.Select(is_kept, at, tirx.Select(is_doubled, at // 2, below))

        data = resize.look_up(importer.block_builder, data, axis, index)
    return data


def interpolate(node: fx.Node, importer: Any) -> Any:
    """Resize to weighted sums of the elements around the coordinate of each output."""
    data, axes = importer.env[node.args[0]], list(_axes(node, importer))
    is_aligned, is_cubic = bool(node.args[2]), "cubic" in node.target.__name__
    if "_aa" in node.target.__name__:
        raise NotImplementedError("interpolate with antialias needs fixed height and width")
    if not is_aligned and not is_cubic and data.ty.ndim == 4 and all(axis.is_by_sizes for axis in axes):
        return importer.block_builder.emit(resize.resize_feature_map(data, axes, "linear", "half_pixel"))
    for axis in axes:
        filter_ = CUBIC if is_cubic else resize.LINEAR
        data = resize.interpolate(importer.block_builder, data, axis, _coordinate(axis, is_aligned), filter_)
    return data


def _coordinate(axis: ResizedAxis, is_aligned: bool) -> Position:
    def coordinate(at: Any) -> Any:
        if is_aligned:
            last = single(axis.size) - single(1)
            return at * ((single(axis.extent) - single(1)) / tirx.max(last, single(1)))
        return (at + single(0.5)) * _stride(axis) - single(0.5)

    return coordinate


NEAREST = (
    aten.upsample_nearest1d.vec,
    aten.upsample_nearest3d.vec,
    aten._upsample_nearest_exact1d.vec,
    aten._upsample_nearest_exact2d.vec,
    aten._upsample_nearest_exact3d.vec,
)
LINEAR = (aten.upsample_linear1d.vec, aten.upsample_trilinear3d.vec)

DYNAMIC_RESIZES = frozenset({*NEAREST, *LINEAR, aten.upsample_bicubic2d.vec})
"""Operators that PyTorch would decompose into lookups with floating-point arithmetic on dimensions."""

CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    **{operator.__name__: resize_to_nearest for operator in NEAREST},
    **{operator.__name__: interpolate for operator in LINEAR},
}
"""Converters by the operator's name. They also support fixed dimensions, in programs with dynamic ones."""
