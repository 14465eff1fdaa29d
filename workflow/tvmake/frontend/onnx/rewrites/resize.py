"""Replace Resize by one exact linear map per axis in modes that TVM computes wrongly.

Interpolation is separable and linear. Along one axis it is a matrix: the identity, resized by ONNX's reference implementation. Nearest
neighbour becomes a Gather of ONNX Runtime's elements. TVM computes plain upsampling. Repair: `onnx-resize`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tvmake.frontend.onnx.graph import Builder, Graph, Shape, attributes, optional_input

REFERENCE_OPSET = 19
"""The first opset with every coordinate mode; earlier modes have not changed since opset 11."""

MAX_MATRIX = 1 << 24
"""Elements of the largest matrix: from 4096 to 4096 pixels."""

TIE = 1e-6
"""Distance from the midpoint of two elements within which a coordinate counts as a tie, as in ONNX Runtime."""


def argument_name(node: onnx.NodeProto, graph: Graph, index: int) -> str:
    """The name of an argument; "" if it is absent. Opset 11 writes an absent one as a constant without elements."""
    name = optional_input(node, index)
    value = graph.constant(name) if name else None
    return "" if value is not None and not value.size else name


def _arguments(node: onnx.NodeProto, graph: Graph) -> dict[str, np.ndarray] | None:
    """The node's roi, scales and sizes; None if one of them is not constant."""
    arguments = {}
    for index, key in enumerate(("roi", "scales", "sizes"), start=1):
        name = argument_name(node, graph, index)
        if not name:
            continue
        value = graph.constant(name)
        if value is None:
            return None
        arguments[key] = value
    return arguments


def _scales(
    values: dict[str, Any], arguments: dict[str, np.ndarray], shape: Shape
) -> dict[int, tuple[float, int]] | None:
    """The scale and the output length of every resized axis; None if a length is unknown."""
    axes = [axis % len(shape) for axis in values.get("axes") or range(len(shape))]
    if "scales" in arguments:
        scales = [float(scale) for scale in arguments["scales"]]
        result = {}
        for axis, scale in zip(axes, scales, strict=True):
            extent = shape[axis]
            if scale == 1:
                continue
            if not isinstance(extent, int):
                return None
            result[axis] = (scale, int(np.floor(extent * np.float32(scale))))
        return result
    if "sizes" not in arguments:
        return None
    policy = values.get("keep_aspect_ratio_policy", "stretch")
    is_cropped = values.get("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    # An axis whose size is the name of its own dimension is unchanged.
    unchanged = {
        axis
        for axis, size in zip(axes, arguments["sizes"], strict=True)
        if isinstance(size, str) and size == shape[axis]
    }
    if unchanged and (is_cropped or policy != "stretch"):
        return None
    pairs = [(axis, size) for axis, size in zip(axes, arguments["sizes"], strict=True) if axis not in unchanged]
    axes = [axis for axis, _ in pairs]
    if not all(isinstance(size, int | np.integer) for _, size in pairs):
        return None
    sizes = [int(size) for _, size in pairs]
    if not all(isinstance(shape[axis], int) for axis in axes):
        return None
    ratios = [size / shape[axis] for size, axis in zip(sizes, axes, strict=True)]  # type: ignore[operator]
    if policy != "stretch":
        scale = min(ratios) if policy == "not_larger" else max(ratios)
        ratios = [scale] * len(ratios)
        sizes = [int(scale * shape[axis] + 0.5) for axis in axes]  # type: ignore[operator]
    # An axis that keeps its length at scale 1 is the identity, except with a region of interest.
    return {
        axis: (ratio, size)
        for axis, ratio, size in zip(axes, ratios, sizes, strict=True)
        if is_cropped or size != shape[axis] or ratio != 1
    }


def is_trusted(node: onnx.NodeProto, graph: Graph) -> bool:
    """Whether TVM computes this Resize as ONNX defines it: spatial upsampling by integer factors in plain modes."""
    values, arguments, shape = attributes(node), _arguments(node, graph), graph.shape(node.input[0])
    if arguments is None or shape is None or graph.opset < 11:
        return False
    scales = _scales(values, arguments, shape)
    return scales is not None and is_plain(values, len(shape), {axis: scale for axis, (scale, _) in scales.items()})


def is_plain(values: Mapping[str, Any], rank: int, scales: Mapping[int, float]) -> bool:
    """Whether TVM computes a Resize as ONNX defines it, given its attributes and the scales of its axes."""
    if rank not in (3, 4, 5) or any(axis < 2 for axis in scales):
        return False
    if values.get("axes") or values.get("antialias", 0) or values.get("exclude_outside", 0):
        return False
    if any(scale != int(scale) or scale < 1 for scale in scales.values()):
        return False
    mode, coordinates = values.get("mode", "nearest"), values.get("coordinate_transformation_mode", "half_pixel")
    if mode == "nearest":
        return coordinates == "asymmetric" and values.get("nearest_mode", "round_prefer_floor") == "floor"
    return mode == "linear" and coordinates in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")


def _along_axis(
    values: dict[str, Any], extent: int, size: int, scale: float, roi: list[float], data: np.ndarray
) -> np.ndarray:
    """Resize the columns of ``data`` [rows, extent] to ``size`` with ONNX's reference implementation."""
    is_pytorchs = values.get("coordinate_transformation_mode") == "pytorch_half_pixel"
    if is_pytorchs and size == 1 and not values.get("antialias", 0):
        return data[:, :1].astype(np.float32)  # the coordinate is 0 in ONNX's specification, -0.5 in its reference
    options = {
        key: value
        for key, value in values.items()
        if key not in ("axes", "keep_aspect_ratio_policy", "extrapolation_value")
    }
    # With aligned corners, PyTorch and ONNX Runtime map the last element to the last one; the reference does not.
    is_aligned = values.get("coordinate_transformation_mode") == "align_corners" and not values.get("antialias", 0)
    # The reference rounds down: 6 · 1.6666666 is 9.
    matches = not is_aligned and scale * extent != size and int(float(np.float32(scale)) * extent) == size
    inputs = {"x": data.astype(np.float32), "roi": np.array(roi, np.float32)}
    if matches:
        inputs["scales"], names = np.array([scale], np.float32), ["x", "roi", "scales"]
    else:
        inputs["sizes"], names = np.array([size], np.int64), ["x", "roi", "", "sizes"]
    extrapolation = values["extrapolation_value"]
    node = helper.make_node("Resize", names, ["y"], axes=[1], extrapolation_value=extrapolation, **options)
    declared = [onnx.ValueInfoProto(name=name) for name in inputs]
    graph = helper.make_graph([node], "axis", declared, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", REFERENCE_OPSET)])
    return ReferenceEvaluator(model).run(None, inputs)[0]


def _nearest(values: dict[str, Any], extent: int, size: int, scale: float) -> np.ndarray:
    """The index of the element for every output, int64 [size].

    Coordinates are float32, as in ONNX Runtime (``upsamplebase.h``): otherwise ties, and coordinates near an integer, could round to
    another element.
    """
    mode, single = values.get("coordinate_transformation_mode", "half_pixel"), np.float32
    at, half = np.arange(size, dtype=single), single(0.5)
    if mode == "align_corners":
        coordinates = at * single(extent - 1) / single(max(size - 1, 1))
    elif mode == "asymmetric":
        coordinates = at / single(scale)
    elif mode == "tf_half_pixel_for_nn":
        coordinates = (at + half) / single(scale)
    elif mode == "pytorch_half_pixel" and size == 1:
        coordinates = at
    else:
        coordinates = (at + half) / single(scale)
        if mode == "half_pixel_symmetric":
            coordinates = single(extent / 2) * (1 - single(size) / (single(scale) * single(extent))) + coordinates
        coordinates -= half
    rounding = values.get("nearest_mode", "round_prefer_floor")
    below = np.floor(coordinates)
    beyond = coordinates - below - half
    is_tie = abs(beyond) < TIE
    nearest = {
        "floor": below,
        "ceil": np.ceil(coordinates),
        "round_prefer_floor": below + (~is_tie & (beyond > 0)),
        "round_prefer_ceil": below + (is_tie | (beyond > 0)),
    }[rounding]
    return np.clip(nearest, 0, extent - 1).astype(np.int64)


def _drop_empty_arguments(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """A Resize for TVM without arguments that have no elements; None if it has none of these."""
    arguments = [argument_name(node, build.graph, index) for index in range(1, len(node.input))]
    if arguments == list(node.input[1:]):
        return None
    return [build.op("Resize", node.input[0], *arguments, **attributes(node))]


def resize(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    graph = build.graph
    values, shape = attributes(node), graph.shape(node.input[0])
    arguments = _settle_sizes(node, graph)
    if arguments is None or shape is None or graph.opset < 11:
        return None
    if is_trusted(node, graph):
        return _drop_empty_arguments(node, build)
    scales = _scales(values, arguments, shape)
    if scales is None:
        return None
    axes = [axis % len(shape) for axis in values.get("axes") or range(len(shape))]
    extrapolation = values.pop("extrapolation_value", 0.0)
    is_cropped = values.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    if is_cropped and "roi" not in arguments:
        return None
    result, masks = node.input[0], []
    dtype = graph.dtype(node.input[0])
    is_nearest = values.get("mode", "nearest") == "nearest"
    if is_nearest and not is_cropped and all(size == shape[axis] for axis, (_, size) in scales.items()):
        return [build.op("Identity", result)]  # as in ONNX Runtime, even for a scale such as 1.1
    if not is_nearest and dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16):
        return None
    for axis in sorted(scales):
        scale, size = scales[axis]
        extent = shape[axis]
        if not isinstance(extent, int) or extent * size > MAX_MATRIX:
            return None
        number = axes.index(axis)
        roi = [float(arguments["roi"][number]), float(arguments["roi"][number + len(axes)])] if is_cropped else []
        if is_nearest and not is_cropped:
            result = build.op("Gather", result, build.ints(_nearest(values, extent, size, scale).tolist()), axis=axis)
            continue
        matrix = _along_axis({**values, "extrapolation_value": 0.0}, extent, size, scale, roi, np.eye(extent))
        if is_cropped:
            outside = _along_axis(
                {**values, "extrapolation_value": 1.0}, extent, size, scale, roi, np.zeros((1, extent))
            )
            masks.append((outside != 0).reshape([size if at == axis else 1 for at in range(len(shape))]))
        result = _apply(build, result, axis, len(shape), matrix, is_nearest, dtype)
    if any(mask.any() for mask in masks):
        outside = masks[0]
        for mask in masks[1:]:
            outside = outside | mask
        value = build.const(extrapolation, helper.tensor_dtype_to_np_dtype(dtype))
        result = build.op("Where", build.const(outside, np.bool_), value, result)
    return [result]


def _settle_sizes(node: onnx.NodeProto, graph: Graph) -> dict[str, np.ndarray] | None:
    """The constant arguments; sizes that are not constant come from partly known values, or from a fixed output shape."""
    arguments = _arguments(node, graph)
    result = graph.static_shape(node.output[0])
    has_sizes = len(node.input) > 3 and bool(node.input[3])
    values = attributes(node)
    if arguments is None and has_sizes and node.input[3] in graph.extents and not argument_name(node, graph, 1):
        return {"sizes": graph.extents[node.input[3]]}
    if (
        arguments is None
        and has_sizes
        and result is not None
        and values.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    ):
        roi = graph.constant(node.input[1]) if node.input[1] else np.zeros(0, np.float32)
        if roi is None:
            return None
        axes = values.get("axes") or range(len(result))
        arguments = {"sizes": np.array([result[axis] for axis in axes], np.int64)}
        return arguments | ({"roi": roi} if roi.size else {})
    return arguments


def _apply(build: Builder, name: str, axis: int, rank: int, matrix: np.ndarray, is_nearest: bool, dtype: int) -> str:
    """Multiply along one axis by ``matrix`` [extent, size]; a matrix of zeros and ones becomes a Gather."""
    if is_nearest:
        return build.op("Gather", name, build.ints(matrix.argmax(axis=0).tolist()), axis=axis)
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    if axis == rank - 1:
        return build.op("MatMul", name, build.const(matrix, kind))
    order = [at for at in range(rank) if at != axis] + [axis]
    product = build.op("MatMul", build.transpose(name, order), build.const(matrix, kind))
    return build.transpose(product, [order.index(at) for at in range(rank)])


RULES = {"Resize": resize}
