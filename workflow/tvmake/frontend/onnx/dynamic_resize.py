"""Resize dynamic dimensions; coordinates are computed at run time in float32, as in ONNX Runtime (``upsamplebase.h``)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import TensorProto

from tvmake.frontend.lowering import resize
from tvmake.frontend.lowering.resize import Position, ResizedAxis, clamp, scale_extent, single, whole
from tvmake.frontend.onnx.graph import Graph, attributes, depends_on_data
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
        return "antialias needs fixed height and width; give the inputs fixed shapes"
    if sizes and values.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return "keep_aspect_ratio_policy needs fixed height and width; give the inputs fixed shapes"
    if values.get("mode", "nearest") != "nearest" and graph.dtype(node.input[0]) not in FLOATS:
        return "only floating-point values can be interpolated"
    if (scales and not graph.is_constant(scales)) or (sizes and depends_on_data(sizes, graph)):
        return "scales or sizes are computed from data when the network runs"
    if values.get("coordinate_transformation_mode") == "tf_crop_and_resize" and not (roi and graph.is_constant(roi)):
        return "the region of interest must be a constant"
    return None


@dataclass(frozen=True)
class CroppedAxis(ResizedAxis):
    """A resized axis with an optional region of interest."""

    region: tuple[float, float]
    """Start and end of the region of interest, for ``tf_crop_and_resize``."""

    @property
    def ratio(self) -> Any:
        """The scale in float32, as in ONNX Runtime."""
        return single(self.scale) if self.scale is not None else single(self.size) / single(self.extent)


def convert_resize(
    builder: Any, inputs: Sequence[Any], sizes: np.ndarray | None, node_attributes: Mapping[str, Any]
) -> Any:
    """Resize a tensor; None leaves a Resize of fixed dimensions to TVM's importer, which computes it as ONNX defines it.

    Args:
        builder: emits the bindings.
        inputs: the node's: data, region of interest, scales and sizes.
        sizes: the requested lengths, including expressions; None if the node has scales.
        node_attributes: the node's.
    """
    values = {name: value.decode() if isinstance(value, bytes) else value for name, value in node_attributes.items()}
    data = inputs[0]
    shape = [int(extent) if is_known(extent) else extent for extent in data.ty.shape]
    axes = _axes(values, shape, _numbers(inputs, 1), _numbers(inputs, 2), sizes)
    is_fixed = all(is_known(extent) for axis in axes for extent in (axis.extent, axis.size))
    if is_fixed and is_plain(values, len(shape), {axis.number: axis.size / axis.extent for axis in axes}):
        return None
    if not axes:
        return data
    if (operator := _operator(values, data, axes)) is not None:
        return operator
    extents = [extent for axis in axes for extent in (axis.extent, axis.size)]
    result = data
    for axis in axes:
        coordinate = _coordinate_unless_kept(values, axis, axes)
        if values.get("mode", "nearest") == "nearest":
            result = resize.look_up(builder, result, axis, _nearest(values, axis, coordinate), extents)
        else:
            result = resize.interpolate(builder, result, axis, coordinate, _filter(values), extents)
    return _fill_outside(builder, values, axes, result)


def _numbers(inputs: Sequence[Any], index: int) -> np.ndarray | None:
    """An argument that is a constant with elements; None for any other."""
    value = inputs[index] if index < len(inputs) else None
    constant = value.value.numpy() if isinstance(value, tvm.ir.GenericConst) else None
    return constant if constant is not None and constant.size else None


def _axes(
    values: Mapping[str, Any],
    shape: Sequence[Extent],
    roi: np.ndarray | None,
    scales: np.ndarray | None,
    sizes: np.ndarray | None,
) -> list[CroppedAxis]:
    numbers = [axis % len(shape) for axis in values.get("axes") or range(len(shape))]
    is_cropped = values.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    axes = []
    for index, number in enumerate(numbers):
        extent, scale = shape[number], None if scales is None else float(scales[index])
        size = sizes[index] if scale is None else scale_extent(extent, scale, "float32")  # type: ignore[index]
        size = size if isinstance(size, tvm.ir.Expr) else int(size)
        is_kept = scale == 1 if scale is not None else whole_factor(extent, size) == 1
        if not is_kept or is_cropped:
            region = (float(roi[index]), float(roi[len(numbers) + index])) if is_cropped and roi is not None else (0, 1)
            axes.append(CroppedAxis(number, extent, size, scale, region))
    return axes


def _operator(values: Mapping[str, Any], data: Any, axes: Sequence[CroppedAxis]) -> Any | None:
    """TVM's operator for feature maps, which layout and fusion passes support; None if its result would differ."""
    mode = values.get("mode", "nearest")
    coordinates = values.get("coordinate_transformation_mode", "half_pixel")
    factors = [axis.factor for axis in axes]
    if data.ty.ndim != 4 or min(axis.number for axis in axes) < 2:
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
                start, end = map(single, axis.region)
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

        mask = resize.compute_along(builder, (axis.size,), is_outside, "resize_outside", (axis.extent, axis.size))
        masks.append(builder.emit(relax.op.reshape(mask, aligned)))
    mask = reduce(lambda left, right: builder.emit(relax.op.logical_or(left, right)), masks)
    value = relax.const(float(values.get("extrapolation_value", 0.0)), str(result.ty.dtype.dtype))
    return relax.op.where(mask, value, result)
