"""Rewrite deformable convolutions, indices of maxima, sampling grids, and cache updates at one index per row."""

from itertools import product

import numpy as np
import onnx
from onnx import TensorProto

from tvmake.frontend.onnx.graph import Builder, attributes, optional_input

MAX_TAPS = 256
"""Elements of the largest kernel window; every element becomes several nodes."""


def deform_conv(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Write a deformable convolution (Dai et al., 2017; with a mask Zhu et al., 2019) as bilinear samples and a matmul.

    Corners outside the image are 0.
    """
    graph, values = build.graph, attributes(node)
    x, weight, offset = node.input[:3]
    shape, kernel, offset_shape = (graph.static_shape(name) for name in (x, weight, offset))
    if shape is None or kernel is None or offset_shape is None or len(shape) != 4:
        return None
    batch, channels, *extents = shape
    taps, sizes = list(kernel[2:]), list(offset_shape[2:])
    strides, dilations = values.get("strides", [1, 1]), values.get("dilations", [1, 1])
    pads, groups, parts = values.get("pads", [0] * 4), values.get("group", 1), values.get("offset_group", 1)
    count, outputs = taps[0] * taps[1], sizes[0] * sizes[1]

    def coordinates(axis: int) -> str:
        """The coordinates of the samples along an axis, [batch, parts, 1, count · outputs], in float32."""
        tap = np.arange(taps[axis]) * dilations[axis]
        start = np.arange(sizes[axis]) * strides[axis] - pads[axis]
        grid = np.zeros((*taps, *sizes), np.float32)
        grid += tap.reshape([-1 if at == axis else 1 for at in range(4)])
        grid += start.reshape([-1 if at == axis + 2 else 1 for at in range(4)])
        pairs = build.reshape(build.cast(offset, TensorProto.FLOAT), [batch, parts, count, 2, outputs])
        shift = build.squeeze(build.slice(pairs, 3, axis, axis + 1), [3])
        return build.reshape(
            build.op("Add", shift, build.const(grid.reshape(count, outputs), np.float32)), [batch, parts, 1, -1]
        )

    positions = [coordinates(0), coordinates(1)]
    corners = [build.op("Floor", position) for position in positions]
    fractions = [build.op("Sub", position, corner) for position, corner in zip(positions, corners, strict=True)]
    one, zero = build.const(1, np.float32), build.const(0, np.float32)
    wide = [batch, parts, channels // parts, count * outputs]
    rows = build.reshape(x, [batch, parts, channels // parts, extents[0] * extents[1]])
    samples = ""
    for corner in product((0, 1), repeat=2):
        at, factors = [], []
        for axis, upper in enumerate(corner):
            index = build.op("Add", corners[axis], one) if upper else corners[axis]
            bounded = build.op("Clip", index, zero, build.const(extents[axis] - 1, np.float32))
            weight_along = fractions[axis] if upper else build.op("Sub", one, fractions[axis])
            factors.append(build.op("Where", build.op("Equal", bounded, index), weight_along, zero))
            at.append(build.cast(bounded, TensorProto.INT64))
        flat = build.op("Add", build.op("Mul", at[0], build.const(extents[1], np.int64)), at[1])
        values_at_corner = build.op("GatherElements", rows, build.op("Expand", flat, build.ints(wide)), axis=3)
        factor = build.cast(build.op("Mul", *factors), graph.dtype(x))
        part = build.op("Mul", values_at_corner, factor)
        samples = build.op("Add", samples, part) if samples else part
    if optional_input(node, 4):
        samples = build.op("Mul", samples, build.reshape(node.input[4], [batch, parts, 1, count * outputs]))
    columns = build.reshape(samples, [batch, groups, channels // groups * count, outputs])
    matrix = build.reshape(weight, [1, groups, kernel[0] // groups, -1])
    result = build.reshape(build.op("MatMul", matrix, columns), [batch, kernel[0], *sizes])
    if optional_input(node, 3):
        result = build.op("Add", result, build.reshape(node.input[3], [1, -1, 1, 1]))
    return [result]


def max_pool(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Also return the indices of the maxima, which the importer does not: compare the window's elements one after another."""
    if len(node.output) < 2 or not node.output[1]:
        return None
    graph, values = build.graph, attributes(node)
    x = node.input[0]
    shape, result = graph.static_shape(x), graph.static_shape(node.output[0])
    if shape is None or result is None:
        return None
    extents, sizes, kernel = shape[2:], result[2:], values["kernel_shape"]
    axes = range(len(kernel))
    strides, dilations = values.get("strides") or [1] * len(kernel), values.get("dilations") or [1] * len(kernel)
    begins = list(values.get("pads") or [0] * 2 * len(kernel))[: len(kernel)]
    automatic = values.get("auto_pad", "NOTSET")
    if automatic.startswith("SAME"):
        spans = [(sizes[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - extents[i] for i in axes]
        begins = [(max(span, 0) + (automatic == "SAME_LOWER")) // 2 for span in spans]
    if np.prod(kernel) > MAX_TAPS:
        return None
    elements = int(np.prod(extents))
    steps = [
        int(np.prod(extents[i + 1 :])) if not values.get("storage_order", 0) else int(np.prod(extents[:i]))
        for i in axes
    ]
    rows = build.reshape(x, [*shape[:2], elements])
    best = best_index = ""
    for tap in product(*(range(extent) for extent in kernel)):
        at = [np.arange(sizes[i]) * strides[i] - begins[i] + tap[i] * dilations[i] for i in axes]
        grid = np.meshgrid(*at, indexing="ij")
        inside = np.logical_and.reduce([(line >= 0) & (line < extents[i]) for i, line in enumerate(grid)]).ravel()
        bounded = [np.clip(line, 0, extents[i] - 1) for i, line in enumerate(grid)]
        index = np.ravel_multi_index(bounded, extents).ravel()
        value = build.op("Gather", rows, build.const(index, np.int64), axis=2)
        flat = sum(line * step for line, step in zip(bounded, steps, strict=True)).ravel()
        value_index = build.const(np.where(inside, flat, -1), np.int64)
        if not best:
            best, best_index = value, build.op("Expand", value_index, build.ints([*shape[:2], len(index)]))
            continue
        is_first = build.op("Less", best_index, build.const(0, np.int64))
        wins = build.op(
            "And", build.op("Or", build.op("Greater", value, best), is_first), build.const(inside, np.bool_)
        )
        best, best_index = build.op("Where", wins, value, best), build.op("Where", wins, value_index, best_index)
    planes = np.arange(shape[0] * shape[1]).reshape(shape[0], shape[1], 1) * elements
    best_index = build.op("Add", best_index, build.const(planes, np.int64))
    return [build.reshape(best, result), build.reshape(best_index, result)]


def tensor_scatter(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Select the update or the old value for every element of the cache, so that there are no concurrent writes."""
    graph, values = build.graph, attributes(node)
    cache, update, begins = node.input[0], node.input[1], optional_input(node, 2)
    shape, update_shape = graph.static_shape(cache), graph.static_shape(update)
    if shape is None or update_shape is None:
        return None
    rank = len(shape)
    axis = values.get("axis", -2) % rank
    steps = build.const(np.arange(shape[axis]).reshape([-1 if at == axis else 1 for at in range(rank)]), np.int64)
    zero = build.const(0, np.int64)
    if begins:
        steps = build.op("Sub", steps, build.reshape(build.cast(begins, TensorProto.INT64), [-1, *[1] * (rank - 1)]))
    if values.get("mode", "linear") == "circular":
        steps = build.op("Mod", steps, build.const(shape[axis], np.int64))
    bounded = build.op("Clip", steps, zero, build.const(update_shape[axis] - 1, np.int64))
    is_updated = build.op("Equal", steps, bounded)
    new_values = build.op("GatherElements", update, build.op("Expand", bounded, build.ints(shape)), axis=axis)
    return [build.op("Where", is_updated, new_values, cache)]


def determinant(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Expand determinants of matrices of up to four rows along the first row."""
    shape = build.graph.shape(node.input[0])
    if shape is None or not isinstance(shape[-1], int) or shape[-1] > 4 or shape[-1] != shape[-2]:
        return None
    size, rank = shape[-1], len(shape)
    rows = [build.squeeze(build.slice(node.input[0], rank - 2, row, row + 1), [rank - 2]) for row in range(size)]
    cells = [[build.squeeze(build.slice(row, rank - 2, at, at + 1), [rank - 2]) for at in range(size)] for row in rows]

    def minor_determinant(first: int, columns: tuple[int, ...]) -> str:
        if len(columns) == 1:
            return cells[first][columns[0]]
        total = ""
        for number, column in enumerate(columns):
            minor = minor_determinant(first + 1, columns[:number] + columns[number + 1 :])
            term = build.op("Mul", cells[first][column], minor)
            total = build.op("Sub" if number % 2 else "Add", total, term) if total else term
        return total

    return [minor_determinant(0, tuple(range(size)))]


def roi_align(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Scale regions first: the importer shifts them by half a pixel before scaling, ONNX after it."""
    values = attributes(node)
    scale = values.get("spatial_scale", 1.0)
    default = "half_pixel" if build.graph.opset >= 16 else "output_half_pixel"
    if scale == 1 or values.get("coordinate_transformation_mode", default) != "half_pixel":
        return None
    data, regions, images = node.input
    scaled = build.op("Mul", regions, build.like(scale, regions))
    return [build.op("RoiAlign", data, scaled, images, **{**values, "spatial_scale": 1.0})]


def affine_grid(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Multiply the positions of a grid of known size by the batch's matrices; ONNX's function body fails for a batch of one."""
    size, values = build.graph.constant(node.input[1]), attributes(node)
    if size is None:
        return _grid_of_any_size(node, build)
    batch, extents = int(size[0]), [int(extent) for extent in size[2:]]
    aligns_corners = bool(values.get("align_corners", 0))

    def coordinates(extent: int) -> np.ndarray:
        steps = np.arange(extent, dtype=np.float64)
        if aligns_corners:
            return steps * 2 / max(extent - 1, 1) - 1
        return (2 * steps + 1) / extent - 1

    axes = np.meshgrid(*map(coordinates, extents), indexing="ij")
    positions = np.stack([*reversed(axes), np.ones(extents)], axis=-1).reshape(1, -1, len(extents) + 1)
    matrices = build.transpose(node.input[0], [0, 2, 1])
    grid = build.op("MatMul", build.const(positions, build.graph.numpy_dtype(node.input[0])), matrices)
    return [build.reshape(grid, [batch, *extents, len(extents)])]


def _grid_of_any_size(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Sum each coordinate times its column of the matrices, and the last column.

    Coordinates are pixel centres between -1 and 1, or those of the outermost pixels with ``align_corners``.
    """
    theta, size = node.input
    shape = build.graph.shape(theta)
    if shape is None or not isinstance(shape[2], int):
        return None
    count = shape[2] - 1
    kind = build.graph.dtype(theta)
    total = _column(build, theta, count, count)
    zero, one, two = (build.like(value, theta) for value in (0, 1, 2))
    for number in range(count):  # the first coordinate is along the last axis
        axis = count - 1 - number
        extent = build.op("Gather", size, build.const(2 + axis, np.int64), axis=0)
        positions = build.cast(build.op("Range", build.const(0, np.int64), extent, build.const(1, np.int64)), kind)
        length = build.cast(extent, kind)
        if attributes(node).get("align_corners", 0):
            distance = build.op("Div", two, build.op("Max", build.op("Sub", length, one), one))
            first = build.op("Sub", zero, one)
        else:
            distance = build.op("Div", two, length)
            first = build.op("Sub", build.op("Div", one, length), one)
        coordinates = build.op("Add", build.op("Mul", positions, distance), first)
        aligned = build.reshape(coordinates, [1, *(-1 if other == axis else 1 for other in range(count)), 1])
        total = build.op("Add", build.op("Mul", aligned, _column(build, theta, number, count)), total)
    return [total]


def _column(build: Builder, theta: str, number: int, axes: int) -> str:
    """A column of the matrices [n, axes, axes + 1] as [n, 1, …, axes]."""
    column = build.squeeze(build.slice(theta, 2, number, number + 1), [2])
    return build.unsqueeze(column, list(range(1, 1 + axes)))


def optional_has_element(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Fold to false for an absent input and to true for a tensor."""
    name = optional_input(node, 0)
    if not name:
        return [build.const(False, np.bool_)]
    return [build.const(True, np.bool_)] if build.graph.dtype(name) else None


RULES = {
    "AffineGrid": affine_grid,
    "DeformConv": deform_conv,
    "MaxPool": max_pool,
    "TensorScatter": tensor_scatter,
    "Det": determinant,
    "RoiAlign": roi_align,
    "OptionalHasElement": optional_has_element,
}
