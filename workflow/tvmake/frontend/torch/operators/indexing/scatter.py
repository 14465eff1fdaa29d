"""Writes at indices that tensors hold: ``index_put`` with whole axes or masks, and scatter with reductions.

The source of each element of ``slice_scatter`` is a constant. Repairs: `torch-scattering`, `scattering-of-fewer-indices`.
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
"""PyTorch's names and Relax'."""


def _index_put(node: fx.Node, importer: Any) -> Any:
    given = _arguments(node)
    data, indices, values = given["self"], given["indices"], given["values"]
    reduction = "add" if given.get("accumulate") else "update"
    masks = [index for index in indices if index is not None and index.meta["val"].dtype is torch.bool]
    if masks:
        return _masked_put(data, indices, values, reduction, importer)
    extents, places = extents_of(importer.env[data]), [axis for axis, index in enumerate(indices) if index is not None]
    selected = _broadcast([extents_of(importer.env[indices[axis]]) for axis in places])
    # Where the indexed axes stand side by side, what they select stands in their place; else it comes first.
    are_adjacent = places == list(range(places[0], places[-1] + 1))
    others = [axis for axis in range(len(extents)) if axis not in places]
    before = [axis for axis in others if axis < places[0]] if are_adjacent else []
    after = [axis for axis in others if axis not in before]
    result = [*(extents[axis] for axis in before), *selected, *(extents[axis] for axis in after)]
    rank = len(result)
    emit = importer.block_builder.emit
    terms = []
    for axis in places:
        index = _counted_from_the_start(importer.env[indices[axis]], extents[axis], emit)
        index_shape = extents_of(importer.env[indices[axis]])
        shape = [*[1] * len(before), *[1] * (len(selected) - len(index_shape)), *index_shape, *[1] * len(after)]
        terms.append(emit(relax.op.multiply(relax.op.reshape(index, shape), whole_number(_stride(extents, axis)))))
    for place, axis in [*enumerate(before), *enumerate(after, len(before) + len(selected))]:
        terms.append(_along(extents, axis, place, rank, extents[axis], emit))
    return _scatter(importer, data, _sum(terms, result, emit), importer.env[values], result, reduction)


def _masked_put(data: fx.Node, indices: Sequence[Any], values: fx.Node, reduction: str, importer: Any) -> Any:
    """The same value, or slice of values, wherever a mask over some axes holds."""
    rank, given = data.meta["val"].ndim, values.meta["val"]
    first = next(axis for axis, index in enumerate(indices) if index is not None)
    behind = first + indices[first].meta["val"].ndim
    more = list(range(behind, rank))
    slice_shape = [1] * rank if given.numel() == 1 else list(given.shape)[-len(more) :] if more else []
    if len(indices) != first + 1 or math.prod(slice_shape) != given.numel():
        raise ValueError("index_put with a mask and several values")
    emit = importer.block_builder.emit
    mask = importer.env[indices[first]]
    others = [*range(first), *more]
    mask = emit(relax.op.expand_dims(mask, others)) if others else mask
    value = emit(relax.op.reshape(importer.env[values], slice_shape))
    value = emit(relax.op.add(importer.env[data], value)) if reduction == "add" else value
    return emit(relax.op.where(mask, value, importer.env[data]))


def _scattered(name: str) -> Callable[[fx.Node, Any], Any]:
    """``scatter`` and its kin: by default what is written last stays, else all of it is combined."""

    def convert(node: fx.Node, importer: Any) -> Any:
        given = _arguments(node)
        data, index = given["self"], given["index"]
        reduction = {"scatter_add": "sum", "scatter": given.get("reduce")}.get(name, given.get("reduce"))
        if given.get("include_self") is False or (reduction and reduction not in REDUCTIONS):
            raise ValueError(f"{name} with reduce={reduction!r} and include_self={given.get('include_self', True)}")
        extents, shape = extents_of(importer.env[data]), extents_of(importer.env[index])
        axis = given["dim"] % max(len(extents), 1)
        emit = importer.block_builder.emit
        source = given.get("src", given.get("value"))
        if isinstance(source, fx.Node):
            updates = importer.env[source]
            # Taken, not sliced: a slice of a dynamic axis would have min(n, extent) rows.
            for other, (whole, extent) in enumerate(zip(extents_of(importer.env[source]), shape, strict=True)):
                if not structural_equal(whole, extent):
                    updates = emit(relax.op.take(updates, relax.op.arange(extent, dtype="int64"), other))
        else:
            updates = relax.const(source, dtype_name(data))
        place = _counted_from_the_start(importer.env[index], extents[axis], emit)
        terms = [emit(relax.op.multiply(place, whole_number(_stride(extents, axis))))]
        others = [other for other in range(len(shape)) if other != axis]
        terms += [_along(extents, other, other, len(shape), shape[other], emit) for other in others]
        return _scatter(
            importer, data, _sum(terms, shape, emit), updates, shape, REDUCTIONS[reduction] if reduction else "update"
        )

    return convert


def _slice_scatter(node: fx.Node, importer: Any) -> Any:
    """Write a tensor over every ``step``-th element of an axis."""
    given = {"dim": 0, "start": None, "end": None, "step": 1, **_arguments(node)}
    data, source = given["self"], given["src"]
    bounds = (given["start"], given["end"], given["step"])
    if not (_is_fixed(data) and _is_fixed(source) and all(bound is None or isinstance(bound, int) for bound in bounds)):
        made = write_slice(node, importer)
        return importer.create_convert_map()["slice_scatter.default"](node) if made is None else made
    extents, emit = extents_of(importer.env[data]), importer.block_builder.emit
    axis = given["dim"] % len(extents)
    written = torch.arange(extents[axis])[slice(*bounds)]
    places, mask = torch.zeros(extents[axis], dtype=torch.int64), torch.zeros(extents[axis], dtype=torch.bool)
    places[written], mask[written] = torch.arange(len(written)), True
    if not len(written):
        return importer.env[data]
    taken = emit(relax.op.take(importer.env[source], relax.const(places.numpy(), "int64"), axis))
    along = [-1 if other == axis else 1 for other in range(len(extents))]
    return emit(relax.op.where(relax.const(mask.reshape(along).numpy(), "bool"), taken, importer.env[data]))


def _scatter(importer: Any, data: fx.Node, places: Any, updates: Any, shape: Sequence[Extent], reduction: str) -> Any:
    """Write updates of a shape at places that count in the flattened data."""
    emit = importer.block_builder.emit
    extents, count = extents_of(importer.env[data]), math.prod(shape)
    flat = emit(relax.op.reshape(importer.env[data], [math.prod(extents)]))
    updates = emit(relax.op.reshape(relax.op.broadcast_to(updates, list(shape)), [count]))
    updates = emit(relax.op.astype(updates, flat.ty.dtype))
    made = emit(relax.op.scatter_elements(flat, emit(relax.op.reshape(places, [count])), updates, 0, reduction))
    return emit(relax.op.reshape(made, extents))


def _counted_from_the_start(index: Any, extent: Extent, emit: Callable[[Any], Any]) -> Any:
    index = emit(relax.op.astype(index, "int64"))
    from_end = relax.op.add(index, whole_number(extent))
    return emit(relax.op.where(relax.op.less(index, whole_number(0)), from_end, index))


def _along(
    extents: Sequence[Extent], axis: int, place: int, rank: int, count: Extent, emit: Callable[[Any], Any]
) -> Any:
    """Where the first elements along an axis of the data lie in it, counting along one axis of the result; a constant where it can be."""
    stride, shape = _stride(extents, axis), [-1 if each == place else 1 for each in range(rank)]
    if isinstance(count, int) and isinstance(stride, int):
        return relax.const((torch.arange(count) * stride).reshape(shape).numpy(), "int64")
    shape[place] = count
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
    "scatter.src": _scattered("scatter"),
    "scatter.value": _scattered("scatter"),
    "scatter_add.default": _scattered("scatter_add"),
    "scatter_reduce.two": _scattered("scatter_reduce"),
}
"""By the operator's name."""
