"""Resize dynamic dimensions; coordinates are computed at run time in float32, as in ONNX Runtime (``upsamplebase.h``)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import onnx
import tvm
from onnx import TensorProto

from tvmake.frontend.lowering import resize
from tvmake.frontend.lowering.resize import Position, ResizedAxis, clamp, scale_extent, single, whole
from tvmake.frontend.onnx.dynamic.shape_values import ShapeValues, as_array
from tvmake.frontend.onnx.graph import Graph, attributes, depends_on_data, fix_shapes
from tvmake.frontend.onnx.rewrites.resize import TIE, argument_name, is_plain
from tvmake.ir.dimensions import Extent, is_known, whole_factor

from tvm import relax, tirx  # isort: skip

FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)

RATIO_MODES = ("half_pixel", "pytorch_half_pixel")
"""Coordinate modes that TVM's operator computes as ONNX defines them; its kernels for other modes fail to build."""

CENTRED = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")


def refusal(node: onnx.NodeProto, graph: Graph) -> str | None:
    """The reason that a Resize cannot be imported; None if :func:`convert_resize` supports it."""
    values = attributes(node)
    _, roi, scales, sizes = (argument_name(node, graph, index) for index in range(4))
    if graph.opset < 11 or graph.rank(node.input[0]) is None:
        return "its input has no known rank"
    if values.get("antialias", 0):
        return f"antialias needs constant sizes, and inputs of fixed height and width: {fix_shapes(graph.graph)}"
    if values.get("mode", "nearest") != "nearest" and graph.dtype(node.input[0]) not in FLOATS:
        return "only floating-point values can be interpolated"
    unknown = [name for name in (roi, scales, sizes) if name and not graph.is_constant(name)]
    if any(not _has_fixed_length(name, graph) and depends_on_data(name, graph) for name in unknown):
        return "its scales, sizes or region of interest have no known number of elements"
    return None


def _has_fixed_length(name: str, graph: Graph) -> bool:
    shape = graph.shape(name)
    return shape is not None and len(shape) == 1 and isinstance(shape[0], int)


@dataclass(frozen=True)
class CroppedAxis(ResizedAxis):
    """A resized axis with an optional region of interest."""

    region: tuple[Any, Any]
    """Start and end of the region of interest, for ``tf_crop_and_resize``: numbers, or expressions that read them."""

    read_scale: Any | None = None
    """A scale that is read at run time, float32."""

    @property
    def ratio(self) -> Any:
        """The scale in float32, as in ONNX Runtime."""
        if self.read_scale is not None:
            return self.read_scale
        return single(self.scale) if self.scale is not None else single(self.size) / single(self.extent)

    @property
    def values(self) -> list[Any]:
        """The lengths, and the numbers that are read at run time."""
        numbers = (self.extent, self.size, self.read_scale, *self.region)
        return [number for number in numbers if isinstance(number, tvm.ir.Expr)]


def convert_resize(extents: ShapeValues, inputs: Sequence[Any], node_attributes: Mapping[str, Any]) -> Any:
    """Resize a tensor; None leaves a Resize of fixed dimensions to TVM's importer, which computes it as ONNX defines it.

    Args:
        extents: known values, and the builder.
        inputs: the node's: data, region of interest, scales and sizes.
        node_attributes: the node's.
    """
    values = {name: value.decode() if isinstance(value, bytes) else value for name, value in node_attributes.items()}
    builder, data = extents.builder, inputs[0]
    shape = [int(extent) if is_known(extent) else extent for extent in data.ty.shape]
    axes = _axes(extents, values, shape, inputs)
    is_fixed = all(is_known(extent) for axis in axes for extent in (axis.extent, axis.size))
    if is_fixed and is_plain(values, len(shape), {axis.number: axis.size / axis.extent for axis in axes}):
        return None
    if not axes:
        return data
    if (operator := _operator(values, data, axes)) is not None:
        return operator
    lengths = [value for axis in axes for value in axis.values]
    result = data
    for axis in axes:
        coordinate = _coordinate_unless_kept(values, axis, axes)
        if values.get("mode", "nearest") == "nearest":
            result = resize.look_up(builder, result, axis, _nearest(values, axis, coordinate), lengths)
        else:
            result = resize.interpolate(builder, result, axis, coordinate, _filter(values), lengths)
    return _fill_outside(builder, values, axes, result)


def _axes(
    extents: ShapeValues, values: Mapping[str, Any], shape: Sequence[Extent], inputs: Sequence[Any]
) -> list[CroppedAxis]:
    """The axes that are resized."""
    roi, scales, sizes = (_argument(inputs, index) for index in (1, 2, 3))
    lengths: list[Target]
    numbers = [axis % len(shape) for axis in values.get("axes") or range(len(shape))]
    is_cropped = values.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    region = extents.read_floats(roi) if is_cropped and roi is not None else None
    if scales is not None and not isinstance(scales, tvm.ir.GenericConst):
        lengths = _scale_at_run_time(extents, scales, [shape[axis] for axis in numbers])
    elif scales is not None:
        factors = [float(scale) for scale in scales.value.numpy()]
        lengths = [
            (scale_extent(shape[axis], scale, "float32"), scale, None)
            for axis, scale in zip(numbers, factors, strict=True)
        ]
    else:
        wanted = [extents.size(size) for size in extents.read(sizes)]  # type: ignore[union-attr]
        wanted = [size if isinstance(size, tvm.ir.Expr) else int(size) for size in wanted]
        lengths = [(size, None, None) for size in wanted]
        policy = values.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            lengths = _keep_aspect_ratio(extents, wanted, [shape[axis] for axis in numbers], policy)
    axes = []
    for index, (number, (size, scale, read_scale)) in enumerate(zip(numbers, lengths, strict=True)):
        extent = shape[number]
        is_kept = read_scale is None and (scale == 1 if scale is not None else whole_factor(extent, size) == 1)
        if not is_kept or is_cropped:
            ends = (region[index], region[len(numbers) + index]) if region is not None else (0.0, 1.0)
            axes.append(CroppedAxis(number, extent, size, scale, ends, read_scale))
    return axes


def _argument(inputs: Sequence[Any], index: int) -> Any | None:
    """An argument; None if it is absent, or a constant without elements as opset 11 writes it."""
    value = inputs[index] if index < len(inputs) else None
    return None if isinstance(value, tvm.ir.GenericConst) and not value.value.numpy().size else value


Target = tuple[Extent, float | None, Any | None]
"""The length of a resized axis, its scale, and its scale if that is computed at run time."""


def _scale_at_run_time(extents: ShapeValues, scales: Any, shape: Sequence[Extent]) -> list[Target]:
    emit = extents.builder.emit
    before = emit(relax.op.astype(extents.tensor(as_array(list(shape))), "float32"))
    scaled = emit(relax.op.floor(emit(relax.op.multiply(before, emit(relax.op.astype(scales, "float32"))))))
    sizes = extents.read(emit(relax.op.astype(scaled, "int64")))
    factors = extents.read_floats(scales)
    return [(extents.size(size), None, factor) for size, factor in zip(sizes, factors, strict=True)]  # type: ignore[arg-type]


def _keep_aspect_ratio(
    extents: ShapeValues, sizes: Sequence[Extent], shape: Sequence[Extent], policy: str
) -> list[Target]:
    """Scale all axes by the smallest or the largest of their ratios, in float32 as in ONNX Runtime."""
    emit = extents.builder.emit
    wanted, before = (
        emit(relax.op.astype(extents.tensor(as_array(list(values))), "float32")) for values in (sizes, shape)
    )
    choose = relax.op.min if policy == "not_larger" else relax.op.max
    scale = emit(choose(emit(relax.op.divide(wanted, before)), axis=[0], keepdims=True))
    # Half a pixel is rounded up, not to the even number.
    half = relax.const(0.5, "float32")
    rounded = emit(relax.op.floor(emit(relax.op.add(emit(relax.op.multiply(before, scale)), half))))
    lengths, factors = extents.read(emit(relax.op.astype(rounded, "int64"))), extents.read_floats(scale)
    return [(extents.size(length), None, factors[0]) for length in lengths]  # type: ignore[index, union-attr]


def _operator(values: Mapping[str, Any], data: Any, axes: Sequence[CroppedAxis]) -> Any | None:
    """TVM's operator for feature maps, which layout and fusion passes support; None if its result would differ."""
    mode = values.get("mode", "nearest")
    coordinates = values.get("coordinate_transformation_mode", "half_pixel")
    factors = [axis.factor for axis in axes]
    if data.ty.ndim != 4 or min(axis.number for axis in axes) < 2 or any(axis.read_scale is not None for axis in axes):
        return None
    if mode == "nearest":
        if None in factors or not _repeats_elements(coordinates, values.get("nearest_mode", "round_prefer_floor")):
            return None
        return resize.repeat_elements(data, axes)
    if mode != "linear" or coordinates not in RATIO_MODES or not all(axis.is_by_sizes for axis in axes):
        return None
    return resize.resize_feature_map(data, axes, "linear", coordinates)


def _repeats_elements(coordinates: str, rounding: str) -> bool:
    """Whether a nearest resize by an integer factor repeats every element that number of times."""
    if coordinates in CENTRED:
        return rounding in ("round_prefer_floor", "round_prefer_ceil")
    return coordinates in ("asymmetric", "tf_half_pixel_for_nn") and rounding == "floor"


def _coordinate(values: Mapping[str, Any], axis: CroppedAxis) -> Position:
    mode = values.get("coordinate_transformation_mode", "half_pixel")
    extent, size, ratio, half = single(axis.extent), single(axis.size), axis.ratio, single(0.5)

    def coordinate(at: Any) -> Any:
        match mode:
            case "align_corners":
                return at * (extent - single(1)) / tirx.max(size - single(1), single(1))
            case "asymmetric":
                return at / ratio
            case "tf_half_pixel_for_nn":
                return (at + half) / ratio
            case "tf_crop_and_resize":
                start, end = (end if isinstance(end, tvm.ir.Expr) else single(end) for end in axis.region)
                last = extent - single(1)
                several = start * last + at * (end - start) * last / tirx.max(size - single(1), single(1))
                return tirx.Select(size > single(1), several, half * (start + end) * last)
        centred = (at + half) / ratio
        if mode == "half_pixel_symmetric":
            centred = extent / single(2) * (single(1) - size / (ratio * extent)) + centred
        is_single = size <= single(1) if mode == "pytorch_half_pixel" else tirx.const(False, "bool")
        return tirx.Select(is_single, single(0), centred - half)

    return coordinate


def _coordinate_unless_kept(values: Mapping[str, Any], axis: CroppedAxis, axes: Sequence[CroppedAxis]) -> Position:
    """The coordinate, or the index itself if all axes keep their lengths: 7 elements by 1.1 are the same 7 in ONNX Runtime."""
    coordinate = _coordinate(values, axis)
    if values.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return coordinate
    is_kept = tirx.all(*(tirx.EQ(whole(axis.size), whole(axis.extent)) for axis in axes))
    return lambda at: tirx.Select(is_kept, at, coordinate(at))


def _nearest(values: Mapping[str, Any], axis: CroppedAxis, coordinate: Position) -> Callable[[Any], Any]:
    rounding = values.get("nearest_mode", "round_prefer_floor")
    return lambda at: clamp(tirx.Cast("int64", _round_position(coordinate(single(at)), rounding)), axis.extent)


def _round_position(coordinate: Any, rounding: str) -> Any:
    below = tirx.floor(coordinate)
    beyond = coordinate - below - single(0.5)
    is_tie = tirx.abs(beyond) < single(TIE)
    match rounding:
        case "floor":
            return below
        case "ceil":
            return tirx.ceil(coordinate)
        case "round_prefer_floor":
            return below + tirx.Select(tirx.all(tirx.Not(is_tie), beyond > single(0)), single(1), single(0))
    return below + tirx.Select(tirx.any(is_tie, beyond > single(0)), single(1), single(0))


def _filter(values: Mapping[str, Any]) -> resize.Filter:
    if values["mode"] == "linear":
        return resize.LINEAR
    return resize.cubic(float(values.get("cubic_coeff_a", -0.75)), bool(values.get("exclude_outside", 0)))


def _fill_outside(builder: Any, values: Mapping[str, Any], axes: Sequence[CroppedAxis], result: Any) -> Any:
    """The result with the extrapolation value where the region of interest exceeds the tensor."""
    if values.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        return result
    masks = []
    for axis in axes:
        coordinate, last = _coordinate(values, axis), single(axis.extent) - single(1)
        aligned = [1] * len(result.ty.shape)
        aligned[axis.number] = axis.size

        def is_outside(at: Any, coordinate: Position = coordinate, last: Any = last) -> Any:
            return tirx.any(coordinate(single(at)) < single(0), coordinate(single(at)) > last)

        mask = resize.compute_along(builder, (axis.size,), is_outside, "resize_outside", axis.values)
        masks.append(builder.emit(relax.op.reshape(mask, aligned)))
    mask = reduce(lambda left, right: builder.emit(relax.op.logical_or(left, right)), masks)
    value = relax.const(float(values.get("extrapolation_value", 0.0)), str(result.ty.dtype.dtype))
    return relax.op.where(mask, value, result)
