"""Converters for writes at indices: ``index_put`` with whole axes or masks, scatter with reductions, ``slice_scatter``.

Repairs: `torch-scattering`, `scattering-of-fewer-indices`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from tvm_ffi import structural_equal

from tvmake.frontend.lowering.dimension_values import Extent, extents_of, whole_number
from tvmake.frontend.torch.operators.indexing.slices import write_slice
from tvmake.frontend.torch.program import dtype_name

from tvm import relax  # isort: skip

REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
"""Relax' names of reductions by PyTorch's."""


def _index_put(node: fx.Node, importer: Any) -> Any:
    arguments = _arguments(node)
    data, indices, values = arguments["self"], arguments["indices"], arguments["values"]
    reduction = "add" if arguments.get("accumulate") else "update"
    masks = [index for index in indices if index is not None and index.meta["val"].dtype is torch.bool]
    if masks:
        return _masked_put(data, indices, values, reduction, importer)
    extents, indexed = extents_of(importer.env[data]), [axis for axis, index in enumerate(indices) if index is not None]
    selected = _broadcast([extents_of(importer.env[indices[axis]]) for axis in indexed])
    # The selection replaces adjacent indexed axes, and otherwise comes first.
    are_adjacent = indexed == list(range(indexed[0], indexed[-1] + 1))
    others = [axis for axis in range(len(extents)) if axis not in indexed]
    before = [axis for axis in others if axis < indexed[0]] if are_adjacent else []
    after = [axis for axis in others if axis not in before]
    result = [*(extents[axis] for axis in before), *selected, *(extents[axis] for axis in after)]
    rank = len(result)
    emit = importer.block_builder.emit
    terms = []
    for axis in indexed:
        index = _normalize_index(importer.env[indices[axis]], extents[axis], emit)
        index_shape = extents_of(importer.env[indices[axis]])
        shape = [*[1] * len(before), *[1] * (len(selected) - len(index_shape)), *index_shape, *[1] * len(after)]
        terms.append(emit(relax.op.multiply(relax.op.reshape(index, shape), whole_number(_stride(extents, axis)))))
    for result_axis, axis in [*enumerate(before), *enumerate(after, len(before) + len(selected))]:
        terms.append(_axis_offsets(extents, axis, result_axis, rank, extents[axis], emit))
    return _scatter(importer, data, _sum(terms, result, emit), importer.env[values], result, reduction)


def _masked_put(data: fx.Node, indices: Sequence[Any], values: fx.Node, reduction: str, importer: Any) -> Any:
    """Write one value, or one slice of values, at all positions of a mask over some axes."""
    rank, value = data.meta["val"].ndim, values.meta["val"]
    first = next(axis for axis, index in enumerate(indices) if index is not None)
    behind = first + indices[first].meta["val"].ndim
    more = list(range(behind, rank))
    slice_shape = [1] * rank if value.numel() == 1 else list(value.shape)[-len(more) :] if more else []
    if len(indices) != first + 1 or math.prod(slice_shape) != value.numel():
        raise ValueError("index_put with a mask and several values")
    emit = importer.block_builder.emit
    mask = importer.env[indices[first]]
    others = [*range(first), *more]
    mask = emit(relax.op.expand_dims(mask, others)) if others else mask
    value = emit(relax.op.reshape(importer.env[values], slice_shape))
    value = emit(relax.op.add(importer.env[data], value)) if reduction == "add" else value
    return emit(relax.op.where(mask, value, importer.env[data]))


def _scatter_converter(name: str) -> Callable[[fx.Node, Any], Any]:
    """``scatter`` and its variants. Without a reduction, the last write wins."""

    def convert(node: fx.Node, importer: Any) -> Any:
        arguments = _arguments(node)
        data, index = arguments["self"], arguments["index"]
        reduction = {"scatter_add": "sum", "scatter": arguments.get("reduce")}.get(name, arguments.get("reduce"))
        if arguments.get("include_self") is False or (reduction and reduction not in REDUCTIONS):
            raise ValueError(f"{name} with reduce={reduction!r} and include_self={arguments.get('include_self', True)}")
        extents, shape = extents_of(importer.env[data]), extents_of(importer.env[index])
        axis = arguments["dim"] % max(len(extents), 1)
        emit = importer.block_builder.emit
        source = arguments.get("src", arguments.get("value"))
        if isinstance(source, fx.Node):
            updates = importer.env[source]
            # A slice of a dynamic axis would have min(n, extent) rows, so take is used.
            for source_axis, (available, extent) in enumerate(
                zip(extents_of(importer.env[source]), shape, strict=True)
            ):
                if not structural_equal(available, extent):
                    updates = emit(relax.op.take(updates, relax.op.arange(extent, dtype="int64"), source_axis))
        else:
            updates = relax.const(source, dtype_name(data))
        position = _normalize_index(importer.env[index], extents[axis], emit)
        terms = [emit(relax.op.multiply(position, whole_number(_stride(extents, axis))))]
        others = [other for other in range(len(shape)) if other != axis]
        terms += [_axis_offsets(extents, other, other, len(shape), shape[other], emit) for other in others]
        return _scatter(
            importer, data, _sum(terms, shape, emit), updates, shape, REDUCTIONS[reduction] if reduction else "update"
        )

    return convert


def _slice_scatter(node: fx.Node, importer: Any) -> Any:
    """Write a tensor over every ``step``-th element of an axis, by a lookup with constant indices."""
    arguments = {"dim": 0, "start": None, "end": None, "step": 1, **_arguments(node)}
    data, source = arguments["self"], arguments["src"]
    bounds = (arguments["start"], arguments["end"], arguments["step"])
    if not (_is_fixed(data) and _is_fixed(source) and all(bound is None or isinstance(bound, int) for bound in bounds)):
        result = write_slice(node, importer)
        return importer.create_convert_map()["slice_scatter.default"](node) if result is None else result
    extents, emit = extents_of(importer.env[data]), importer.block_builder.emit
    axis = arguments["dim"] % len(extents)
    written = torch.arange(extents[axis])[slice(*bounds)]
    indices, mask = torch.zeros(extents[axis], dtype=torch.int64), torch.zeros(extents[axis], dtype=torch.bool)
    indices[written], mask[written] = torch.arange(len(written)), True
    if not len(written):
        return importer.env[data]
    values = emit(relax.op.take(importer.env[source], relax.const(indices.numpy(), "int64"), axis))
    shape = [-1 if index == axis else 1 for index in range(len(extents))]
    return emit(relax.op.where(relax.const(mask.reshape(shape).numpy(), "bool"), values, importer.env[data]))


def _scatter(importer: Any, data: fx.Node, offsets: Any, updates: Any, shape: Sequence[Extent], reduction: str) -> Any:
    """Write updates of a shape at offsets in the flattened data."""
    emit = importer.block_builder.emit
    extents, count = extents_of(importer.env[data]), math.prod(shape)
    flat = emit(relax.op.reshape(importer.env[data], [math.prod(extents)]))
    updates = emit(relax.op.reshape(relax.op.broadcast_to(updates, list(shape)), [count]))
    updates = emit(relax.op.astype(updates, flat.ty.dtype))
    written = emit(relax.op.scatter_elements(flat, emit(relax.op.reshape(offsets, [count])), updates, 0, reduction))
    return emit(relax.op.reshape(written, extents))


def _normalize_index(index: Any, extent: Extent, emit: Callable[[Any], Any]) -> Any:
    """Convert negative indices, which count from the end."""
    index = emit(relax.op.astype(index, "int64"))
    from_end = relax.op.add(index, whole_number(extent))
    return emit(relax.op.where(relax.op.less(index, whole_number(0)), from_end, index))


def _axis_offsets(
    extents: Sequence[Extent], axis: int, result_axis: int, rank: int, count: Extent, emit: Callable[[Any], Any]
) -> Any:
    """Offsets of the first ``count`` elements along an axis of the data, along an axis of the result; a constant if possible."""
    stride, shape = _stride(extents, axis), [-1 if index == result_axis else 1 for index in range(rank)]
    if isinstance(count, int) and isinstance(stride, int):
        return relax.const((torch.arange(count) * stride).reshape(shape).numpy(), "int64")
    shape[result_axis] = count
    steps = emit(relax.op.reshape(relax.op.arange(count, dtype="int64"), shape))
    return emit(relax.op.multiply(steps, whole_number(stride)))


def _sum(terms: Sequence[Any], shape: Sequence[Extent], emit: Callable[[Any], Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = emit(relax.op.add(total, term))
    return emit(relax.op.broadcast_to(total, list(shape)))


def _stride(extents: Sequence[Extent], axis: int) -> Extent:
    return math.prod(extents[axis + 1 :])


def _broadcast(shapes: Sequence[Sequence[Extent]]) -> list[Extent]:
    rank = max(map(len, shapes))
    columns = zip(*([*[1] * (rank - len(shape)), *shape] for shape in shapes), strict=True)
    return [next((extent for extent in column if not isinstance(extent, int) or extent != 1), 1) for column in columns]


def _is_fixed(node: fx.Node) -> bool:
    return all(isinstance(extent, int) for extent in node.meta["val"].shape)


def _arguments(node: fx.Node) -> dict[str, Any]:
    names = [argument.name for argument in node.target._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "index_put.default": _index_put,
    "slice_scatter.default": _slice_scatter,
    "scatter.src": _scatter_converter("scatter"),
    "scatter.value": _scatter_converter("scatter"),
    "scatter_add.default": _scatter_converter("scatter_add"),
    "scatter_reduce.two": _scatter_converter("scatter_reduce"),
}
"""Converters by the operator's name."""
