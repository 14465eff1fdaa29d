"""Deformable convolutions, indices of maxima, sampling grids, and caches that are written at one index per row."""

from itertools import product

import numpy as np
import onnx
from onnx import TensorProto

from tvmake.frontend.onnx.graph import Builder, attributes, optional_input
from tvmake.frontend.onnx.rewrites.function_bodies import expand

MAX_TAPS = 256
"""Elements of a window, each of which becomes a handful of nodes."""


def deform_conv(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Deformable convolution (Dai et al., 2017; with a mask Zhu et al., 2019) of images: bilinear samples, then a matrix product.

    Corners outside the image count as 0.
    """
    graph, values = build.graph, attributes(node)
    x, weight, offset = node.input[:3]
    shape, kernel, moved = (graph.static_shape(name) for name in (x, weight, offset))
    if shape is None or kernel is None or moved is None or len(shape) != 4:
        return None
    batch, channels, *extents = shape
    taps, sizes = list(kernel[2:]), list(moved[2:])
    strides, dilations = values.get("strides", [1, 1]), values.get("dilations", [1, 1])
    pads, groups, parts = values.get("pads", [0] * 4), values.get("group", 1), values.get("offset_group", 1)
    count, places = taps[0] * taps[1], sizes[0] * sizes[1]

    def along(axis: int) -> str:
        """Where the samples lie along an axis, [batch, parts, 1, count · places], in float32."""
        tap = np.arange(taps[axis]) * dilations[axis]
        place = np.arange(sizes[axis]) * strides[axis] - pads[axis]
        grid = np.zeros((*taps, *sizes), np.float32)
        grid += tap.reshape([-1 if at == axis else 1 for at in range(4)])
        grid += place.reshape([-1 if at == axis + 2 else 1 for at in range(4)])
        pairs = build.reshape(build.cast(offset, TensorProto.FLOAT), [batch, parts, count, 2, places])
        shift = build.squeeze(build.slice(pairs, 3, axis, axis + 1), [3])
        return build.reshape(
            build.op("Add", shift, build.const(grid.reshape(count, places), np.float32)), [batch, parts, 1, -1]
        )

    positions = [along(0), along(1)]
    corners = [build.op("Floor", position) for position in positions]
    shares = [build.op("Sub", position, corner) for position, corner in zip(positions, corners, strict=True)]
    one, zero = build.const(1, np.float32), build.const(0, np.float32)
    wide = [batch, parts, channels // parts, count * places]
    rows = build.reshape(x, [batch, parts, channels // parts, extents[0] * extents[1]])
    samples = ""
    for corner in product((0, 1), repeat=2):
        at, factors = [], []
        for axis, upper in enumerate(corner):
            index = build.op("Add", corners[axis], one) if upper else corners[axis]
            bounded = build.op("Clip", index, zero, build.const(extents[axis] - 1, np.float32))
            share = shares[axis] if upper else build.op("Sub", one, shares[axis])
            factors.append(build.op("Where", build.op("Equal", bounded, index), share, zero))
            at.append(build.cast(bounded, TensorProto.INT64))
        flat = build.op("Add", build.op("Mul", at[0], build.const(extents[1], np.int64)), at[1])
        found = build.op("GatherElements", rows, build.op("Expand", flat, build.ints(wide)), axis=3)
        share = build.cast(build.op("Mul", *factors), graph.dtype(x))
        part = build.op("Mul", found, share)
        samples = build.op("Add", samples, part) if samples else part
    if optional_input(node, 4):
        samples = build.op("Mul", samples, build.reshape(node.input[4], [batch, parts, 1, count * places]))
    columns = build.reshape(samples, [batch, groups, channels // groups * count, places])
    matrix = build.reshape(weight, [1, groups, kernel[0] // groups, -1])
    result = build.reshape(build.op("MatMul", matrix, columns), [batch, kernel[0], *sizes])
    if optional_input(node, 3):
        result = build.op("Add", result, build.reshape(node.input[3], [1, -1, 1, 1]))
    return [result]


def max_pool(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """With the places of the maxima, which the importer does not give: the window's elements compared one after another."""
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
    best = place = ""
    for tap in product(*(range(extent) for extent in kernel)):
        at = [np.arange(sizes[i]) * strides[i] - begins[i] + tap[i] * dilations[i] for i in axes]
        grid = np.meshgrid(*at, indexing="ij")
        inside = np.logical_and.reduce([(line >= 0) & (line < extents[i]) for i, line in enumerate(grid)]).ravel()
        bounded = [np.clip(line, 0, extents[i] - 1) for i, line in enumerate(grid)]
        index = np.ravel_multi_index(bounded, extents).ravel()
        value = build.op("Gather", rows, build.const(index, np.int64), axis=2)
        named = sum(line * step for line, step in zip(bounded, steps, strict=True)).ravel()
        here = build.const(np.where(inside, named, -1), np.int64)
        if not best:
            best, place = value, build.op("Expand", here, build.ints([*shape[:2], len(index)]))
            continue
        is_first = build.op("Less", place, build.const(0, np.int64))
        wins = build.op(
            "And", build.op("Or", build.op("Greater", value, best), is_first), build.const(inside, np.bool_)
        )
        best, place = build.op("Where", wins, value, best), build.op("Where", wins, here, place)
    planes = np.arange(shape[0] * shape[1]).reshape(shape[0], shape[1], 1) * elements
    place = build.op("Add", place, build.const(planes, np.int64))
    return [build.reshape(best, result), build.reshape(place, result)]


def tensor_scatter(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Each place of the cache looks whether the update reaches it; so no two write at once."""
    graph, values = build.graph, attributes(node)
    cache, update, begins = node.input[0], node.input[1], optional_input(node, 2)
    shape, fresh = graph.static_shape(cache), graph.static_shape(update)
    if shape is None or fresh is None:
        return None
    rank = len(shape)
    axis = values.get("axis", -2) % rank
    steps = build.const(np.arange(shape[axis]).reshape([-1 if at == axis else 1 for at in range(rank)]), np.int64)
    zero = build.const(0, np.int64)
    if begins:
        steps = build.op("Sub", steps, build.reshape(build.cast(begins, TensorProto.INT64), [-1, *[1] * (rank - 1)]))
    if values.get("mode", "linear") == "circular":
        steps = build.op("Mod", steps, build.const(shape[axis], np.int64))
    bounded = build.op("Clip", steps, zero, build.const(fresh[axis] - 1, np.int64))
    reaches = build.op("Equal", steps, bounded)
    found = build.op("GatherElements", update, build.op("Expand", bounded, build.ints(shape)), axis=axis)
    return [build.op("Where", reaches, found, cache)]


def determinant(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Of matrices of up to four rows, by expansion along the first."""
    shape = build.graph.shape(node.input[0])
    if shape is None or not isinstance(shape[-1], int) or shape[-1] > 4 or shape[-1] != shape[-2]:
        return None
    size, rank = shape[-1], len(shape)
    rows = [build.squeeze(build.slice(node.input[0], rank - 2, row, row + 1), [rank - 2]) for row in range(size)]
    cells = [[build.squeeze(build.slice(row, rank - 2, at, at + 1), [rank - 2]) for at in range(size)] for row in rows]

    def expanded(first: int, columns: tuple[int, ...]) -> str:
        if len(columns) == 1:
            return cells[first][columns[0]]
        total = ""
        for number, column in enumerate(columns):
            minor = expanded(first + 1, columns[:number] + columns[number + 1 :])
            term = build.op("Mul", cells[first][column], minor)
            total = build.op("Sub" if number % 2 else "Add", total, term) if total else term
        return total

    return [expanded(0, tuple(range(size)))]


def roi_align(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """The importer moves regions by half a pixel before it scales them, and ONNX after it: they come scaled."""
    values = attributes(node)
    scale = values.get("spatial_scale", 1.0)
    default = "half_pixel" if build.graph.opset >= 16 else "output_half_pixel"
    if scale == 1 or values.get("coordinate_transformation_mode", default) != "half_pixel":
        return None
    data, regions, pictures = node.input
    scaled = build.op("Mul", regions, build.like(scale, regions))
    return [build.op("RoiAlign", data, scaled, pictures, **{**values, "spatial_scale": 1.0})]


def affine_grid(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Every position of a grid of known size times the matrices of the batch; ONNX's function body fails for a batch of one."""
    size, values = build.graph.constant(node.input[1]), attributes(node)
    if size is None:
        return expand(node, build)
    batch, extents = int(size[0]), [int(extent) for extent in size[2:]]
    ends_count = bool(values.get("align_corners", 0))

    def along(extent: int) -> np.ndarray:
        steps = np.arange(extent, dtype=np.float64)
        if ends_count:
            return steps * 2 / max(extent - 1, 1) - 1
        return (2 * steps + 1) / extent - 1

    axes = np.meshgrid(*map(along, extents), indexing="ij")
    places = np.stack([*reversed(axes), np.ones(extents)], axis=-1).reshape(1, -1, len(extents) + 1)
    matrices = build.transpose(node.input[0], [0, 2, 1])
    moved = build.op("MatMul", build.const(places, build.graph.numpy_dtype(node.input[0])), matrices)
    return [build.reshape(moved, [batch, *extents, len(extents)])]


def optional_has_element(node: onnx.NodeProto, build: Builder) -> list[str] | None:
    """Without an input there is none; a tensor is one."""
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
