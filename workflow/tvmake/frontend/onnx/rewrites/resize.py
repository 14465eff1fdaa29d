"""Resize as one exact linear map per axis, for the modes TVM gets wrong.

Interpolation is separable and linear: along one axis it is a matrix, which ONNX's reference implementation yields when
it resizes the identity. Nearest neighbour becomes a Gather of the elements that ONNX Runtime takes. Plain upsampling is left to TVM.
Repair: `onnx-resize`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tvmake.frontend.onnx.graph import Builder, Graph, Shape, attributes, optional_input

REFERENCE_OPSET = 19
"""The first with every coordinate mode; the meaning of earlier modes did not change since opset 11."""

MAX_MATRIX = 1 << 24
"""Elements; a matrix from 4096 to 4096 pixels."""

TIE = 1e-6
"""How near to the middle of two elements a place counts as the middle: as in ONNX Runtime."""


def argument_name(node: onnx.NodeProto, graph: Graph, index: int) -> str:
    """The name of an argument; "" where it is absent, which opset 11 writes as a constant without elements."""
    name = optional_input(node, index)
    value = graph.constant(name) if name else None
    return "" if value is not None and not value.size else name


def _arguments(node: onnx.NodeProto, graph: Graph) -> dict[str, np.ndarray] | None:
    """roi, scales and sizes that are present; None when one is not constant."""
    found = {}
    for index, key in enumerate(("roi", "scales", "sizes"), start=1):
        name = argument_name(node, graph, index)
        if not name:
            continue
        value = graph.constant(name)
        if value is None:
            return None
        found[key] = value
    return found


def _scales(
    values: dict[str, Any], arguments: dict[str, np.ndarray], shape: Shape
) -> dict[int, tuple[float, int]] | None:
    """Per resized axis its scale and output extent; None when an extent is unknown."""
    axes = [axis % len(shape) for axis in values.get("axes") or range(len(shape))]
    if "scales" in arguments:
        wanted = [float(scale) for scale in arguments["scales"]]
        result = {}
        for axis, scale in zip(axes, wanted, strict=True):
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
    # An axis of which the size is its extent's name keeps it.
    kept = {
        axis
        for axis, size in zip(axes, arguments["sizes"], strict=True)
        if isinstance(size, str) and size == shape[axis]
    }
    if kept and (is_cropped or policy != "stretch"):
        return None
    pairs = [(axis, size) for axis, size in zip(axes, arguments["sizes"], strict=True) if axis not in kept]
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
    # An axis that keeps its extent at scale 1 is the identity, except under a region of interest.
    return {
        axis: (ratio, size)
        for axis, ratio, size in zip(axes, ratios, sizes, strict=True)
        if is_cropped or size != shape[axis] or ratio != 1
    }


def is_trusted(node: onnx.NodeProto, graph: Graph) -> bool:
    """Whether TVM computes this Resize as ONNX defines it: spatial upsampling by whole factors, plain modes."""
    values, arguments, shape = attributes(node), _arguments(node, graph), graph.shape(node.input[0])
    if arguments is None or shape is None or graph.opset < 11:
        return False
    scales = _scales(values, arguments, shape)
    return scales is not None and is_plain(values, len(shape), {axis: scale for axis, (scale, _) in scales.items()})


def is_plain(values: Mapping[str, Any], rank: int, scales: Mapping[int, float]) -> bool:
    """Whether TVM computes a Resize as ONNX defines it, by its attributes and the scales of the axes that it resizes."""
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
        return data[:, :1].astype(np.float32)  # its place is 0 by the standard, -0.5 in the reference
    kept = {
        key: value
        for key, value in values.items()
        if key not in ("axes", "keep_aspect_ratio_policy", "extrapolation_value")
    }
    # With corners aligned, the last element lies on the last one, as PyTorch and ONNX Runtime have it; not so in the reference.
    is_aligned = values.get("coordinate_transformation_mode") == "align_corners" and not values.get("antialias", 0)
    # As the reference counts: 6 · 1.6666666 is 9 there.
    matches = not is_aligned and scale * extent != size and int(float(np.float32(scale)) * extent) == size
    inputs = {"x": data.astype(np.float32), "roi": np.array(roi, np.float32)}
    if matches:
        inputs["scales"], names = np.array([scale], np.float32), ["x", "roi", "scales"]
    else:
        inputs["sizes"], names = np.array([size], np.int64), ["x", "roi", "", "sizes"]
    extrapolation = values["extrapolation_value"]
    node = helper.make_node("Resize", names, ["y"], axes=[1], extrapolation_value=extrapolation, **kept)
    declared = [onnx.ValueInfoProto(name=name) for name in inputs]
    graph = helper.make_graph([node], "axis", declared, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", REFERENCE_OPSET)])
    return ReferenceEvaluator(model).run(None, inputs)[0]


def _nearest(values: dict[str, Any], extent: int, size: int, scale: float) -> np.ndarray:
    """Which element each output takes, int64 [size]. Places are float32, as ONNX Runtime counts them (``upsamplebase.h``): one that lies between two
    elements, or on one whose floor is asked for, would otherwise be the other's."""
    mode, single = values.get("coordinate_transformation_mode", "half_pixel"), np.float32
    at, half = np.arange(size, dtype=single), single(0.5)
    if mode == "align_corners":
        places = at * single(extent - 1) / single(max(size - 1, 1))
    elif mode == "asymmetric":
        places = at / single(scale)
    elif mode == "tf_half_pixel_for_nn":
        places = (at + half) / single(scale)
    elif mode == "pytorch_half_pixel" and size == 1:
        places = at
    else:
        places = (at + half) / single(scale)
        if mode == "half_pixel_symmetric":
            places = single(extent / 2) * (1 - single(size) / (single(scale) * single(extent))) + places
        places -= half
    rounding = values.get("nearest_mode", "round_prefer_floor")
    below = np.floor(places)
    beyond = places - below - half
    is_tie = abs(beyond) < TIE
    taken = {
        "floor": below,
        "ceil": np.ceil(places),
        "round_prefer_floor": below + (~is_tie & (beyond > 0)),
        "round_prefer_ceil": below + (is_tie | (beyond > 0)),
    }[rounding]
    return np.clip(taken, 0, extent - 1).astype(np.int64)


def _without_empty(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """What is left to TVM, without constants that have no elements."""
    given = [argument_name(node, build.graph, index) for index in range(1, len(node.input))]
    if given == list(node.input[1:]):
        return None
    return [build.op("Resize", node.input[0], *given, **attributes(node))]


def resize(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    graph = build.graph
    values, shape = attributes(node), graph.shape(node.input[0])
    arguments = _settle_sizes(node, graph)
    if arguments is None or shape is None or graph.opset < 11:
        return None
    if is_trusted(node, graph):
        return _without_empty(node, build)
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
        return [build.op("Identity", result)]  # as in ONNX Runtime, though 7 elements by 1.1 would not be those 7
    if not is_nearest and dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16):
        return None
    for axis in sorted(scales):
        scale, size = scales[axis]
        extent = shape[axis]
        if not isinstance(extent, int) or extent * size > MAX_MATRIX:
            return None
        place = axes.index(axis)
        roi = [float(arguments["roi"][place]), float(arguments["roi"][place + len(axes)])] if is_cropped else []
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
    """The constant arguments; sizes that are not constant are read off a static output shape, or known in part."""
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
    """Multiply along one axis by ``matrix`` [extent, size]; a 0/1 matrix is a selection."""
    if is_nearest:
        return build.op("Gather", name, build.ints(matrix.argmax(axis=0).tolist()), axis=axis)
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    if axis == rank - 1:
        return build.op("MatMul", name, build.const(matrix, kind))
    order = [at for at in range(rank) if at != axis] + [axis]
    product = build.op("MatMul", build.transpose(name, order), build.const(matrix, kind))
    return build.transpose(product, [order.index(at) for at in range(rank)])


RULES = {"Resize": resize}
