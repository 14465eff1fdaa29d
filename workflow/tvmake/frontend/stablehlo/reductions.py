"""Reductions of whole axes and of windows."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tvmake.frontend.stablehlo.conversion import Conversion, Converter, Unsupported, Value, extents, integers, numbered
from tvmake.frontend.stablehlo.elementwise import direction

from tvm import relax  # isort: skip

_ARGMAX = ("compare", "compare NE", "or", "compare EQ", "compare LT", "and", "or", "select", "select")
"""The body of jax' argmax and argmin after its first comparison: of two equal values the first counts, and NaN above all."""


def _least(dtype: str) -> float:
    return -math.inf if dtype.startswith(("float", "bfloat")) else 0 if dtype == "bool" else int(np.iinfo(dtype).min)


def _greatest(dtype: str) -> float:
    return math.inf if dtype.startswith(("float", "bfloat")) else 1 if dtype == "bool" else int(np.iinfo(dtype).max)


def _all(value: Any, axes: list[int]) -> Any:
    return relax.op.astype(relax.op.min(relax.op.astype(value, "int8"), axes), "bool")


def _any(value: Any, axes: list[int]) -> Any:
    return relax.op.astype(relax.op.max(relax.op.astype(value, "int8"), axes), "bool")


_REDUCERS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[[str], float]]] = {
    "add": (relax.op.sum, relax.op.add, lambda _: 0),
    "multiply": (relax.op.prod, relax.op.multiply, lambda _: 1),
    "maximum": (relax.op.max, relax.op.maximum, _least),
    "minimum": (relax.op.min, relax.op.minimum, _greatest),
    "and": (_all, relax.op.logical_and, lambda _: 1),
    "or": (_any, relax.op.logical_or, lambda _: 0),
}
"""What reduces axes, what combines two, and what changes nothing."""

_ON_BOOLS = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}


def combined_by(op: Any, region: int = 0) -> str | None:
    """The one operator of a region that combines its two arguments; None for anything else."""
    block = op.regions[region].blocks[0]
    body = [inner.operation for inner in block.operations]
    if len(body) != 2 or len(block.arguments) != 2 or set(body[0].operands) != set(block.arguments):
        return None
    return body[0].name.partition(".")[2] if list(body[1].operands) == list(body[0].results) else None


def _combiner(op: Any, dtype: str) -> str:
    name = combined_by(op)
    name = _ON_BOOLS.get(str(name), name) if dtype == "bool" else name
    if name not in _REDUCERS or (name in ("and", "or") and dtype != "bool"):
        raise Unsupported(f"that combines {dtype} by {name or 'several operators'}")
    return name


def _dtype(value: Any) -> str:
    return str(value.ty.dtype)


def _reduce(at: Conversion, op: Any, values: list[Value]) -> Any:
    axes = integers(op, "dimensions")
    if len(values) == 4:
        return _arg_extremum(at, op, values, axes)
    if len(values) != 2:
        raise Unsupported(f"of {len(values) // 2} arrays at once")
    value = at.whole(values[0])
    name = _combiner(op, _dtype(value))
    reduce, combine, identity = _REDUCERS[name]
    found = at.emit(reduce(value, axes)) if axes else value
    if _is_identity(values[1], identity(_dtype(value))):
        return found
    return combine(found, at.whole(values[1]))


def _is_identity(start: Value, identity: float) -> bool:
    return isinstance(start, np.ndarray) and bool(start == identity)


def _arg_extremum(at: Conversion, op: Any, values: list[Value], axes: list[int]) -> Any:
    body = [inner.operation for inner in op.regions[0].blocks[0].operations][:-1]
    shown = tuple(_shown(inner) for inner in body)
    kinds = {"compare GT": (relax.op.argmax, relax.op.max), "compare LT": (relax.op.argmin, relax.op.min)}
    places = values[1]
    is_usual = (
        len(axes) == 1
        and shown[0] in kinds
        and ("compare", *shown[1:]) == _ARGMAX
        and isinstance(places, np.ndarray)
        and np.array_equal(places, np.broadcast_to(numbered(extents(places), axes[0]), extents(places)))
    )
    if not is_usual:
        raise Unsupported("of two arrays at once, other than argmax and argmin")
    where, most = kinds[shown[0]]
    value = at.whole(values[0])
    is_bool = _dtype(value) == "bool"  # which has no least value in TVM
    value = at.emit(relax.op.astype(value, "int8")) if is_bool else value
    found = at.emit(most(value, axes))
    found = relax.op.astype(found, "bool") if is_bool else found
    return [found, relax.op.astype(at.emit(where(value, axes[0])), str(places.dtype))]


def _shown(operation: Any) -> str:
    name = operation.name.partition(".")[2]
    return f"compare {direction(operation.opview)}" if name == "compare" else name


def _reduce_window(at: Conversion, op: Any, values: list[Value]) -> Any:
    if len(values) != 2:
        raise Unsupported(f"of {len(values) // 2} arrays at once")
    value = at.emit(at.whole(values[0]))
    shape, rank = extents(value), len(extents(value))
    window = integers(op, "window_dimensions")
    strides, dilations = (integers(op, f"window_{name}", [1] * rank) for name in ("strides", "dilations"))
    pads = integers(op, "padding", [0] * 2 * rank)
    pairs = list(zip(pads[::2], pads[1::2], strict=True))
    name = _combiner(op, _dtype(value))
    if any(n != 1 for n in integers(op, "base_dilations")):
        raise Unsupported("over an array with gaps")
    if min(pads, default=0) < 0:
        raise Unsupported("with padding below 0")
    if not _is_identity(values[1], _REDUCERS[name][2](_dtype(value))):
        raise Unsupported("with a start that changes the result")
    axes = [a for a in range(rank) if (window[a], strides[a], dilations[a], pairs[a]) != (1, 1, 1, (0, 0))]
    if not axes:
        return value
    if len(axes) == 1 and (window[axes[0]], strides[axes[0]], dilations[axes[0]]) == (shape[axes[0]], 1, 1):
        running = _running(at, name, value, axes[0], pairs[axes[0]])
        if running is not None:
            return running
    return _pooled(
        at,
        name,
        value,
        axes,
        [[each[a] for a in axes] for each in (window, strides, dilations)],
        [pairs[a] for a in axes],
    )


def _running(at: Conversion, name: str, value: Any, axis: int, pair: tuple[int, int]) -> Any:
    """Windows from one end to each element: a running sum or product, from the first element on or from the last."""
    rest = extents(value)[axis] - 1
    running = {"add": relax.op.cumsum, "multiply": relax.op.cumprod}.get(name)
    if running is None or pair not in ((rest, 0), (0, rest)):
        return None
    if pair == (rest, 0):
        return running(value, axis)
    return relax.op.flip(at.emit(running(at.emit(relax.op.flip(value, axis)), axis)), axis)


_POOLS = {
    "maximum": (relax.op.nn.max_pool1d, relax.op.nn.max_pool2d, relax.op.nn.max_pool3d),
    "add": (relax.op.nn.avg_pool1d, relax.op.nn.avg_pool2d, relax.op.nn.avg_pool3d),
}


def _pooled(
    at: Conversion, name: str, value: Any, axes: list[int], sizes: list[list[int]], pairs: list[tuple[int, int]]
) -> Any:
    """Windows by a pooling over the last axes; a sum is an average times the number of elements, a minimum a maximum negated."""
    if not _dtype(value).startswith("float") or name not in ("maximum", "minimum", "add") or len(axes) > 3:
        raise Unsupported(f"that combines {_dtype(value)} by {name} along {len(axes)} axes")
    shape = extents(value)
    others = [a for a in range(len(shape)) if a not in axes]
    order = others + axes
    moved = at.permuted(value, order)
    flat = at.reshaped(moved, [1, math.prod(shape[a] for a in others), *(shape[a] for a in axes)])
    window, strides, dilations = sizes
    padding = [low for low, _ in pairs] + [high for _, high in pairs]
    flat = at.emit(relax.op.negative(flat)) if name == "minimum" else flat
    kind = _POOLS["add" if name == "add" else "maximum"][len(axes) - 1]
    found = at.emit(kind(flat, window, strides, padding, dilations, count_include_pad=True))
    if name == "add":
        found = at.emit(relax.op.multiply(found, relax.const(float(math.prod(window)), _dtype(value))))
    found = at.emit(relax.op.negative(found)) if name == "minimum" else found
    found = at.reshaped(found, [*(shape[a] for a in others), *extents(found)[2:]])
    return at.permuted(found, np.argsort(order).tolist())


CONVERTERS: dict[str, Converter] = {
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
}
