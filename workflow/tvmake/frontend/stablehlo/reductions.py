"""Convert reductions of axes and of pooling windows."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tvmake.frontend.stablehlo.conversion import (
    Conversion,
    Converter,
    Unsupported,
    Value,
    axis_indices,
    extents,
    integers,
)
from tvmake.frontend.stablehlo.elementwise import direction

from tvm import relax  # isort: skip

_ARGMAX = ("compare", "compare NE", "or", "compare EQ", "compare LT", "and", "or", "select", "select")
"""The body of jax' argmax and argmin after its first comparison: the first of equal values is selected, and NaN is the largest."""


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
"""The reduction of axes, the binary operator, and its neutral element."""

_ON_BOOLS = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}


def combining_operator(op: Any, region: int = 0) -> str | None:
    """The single operator of a region that combines its two arguments; None for other regions."""
    block = op.regions[region].blocks[0]
    body = [inner.operation for inner in block.operations]
    if len(body) != 2 or len(block.arguments) != 2 or set(body[0].operands) != set(block.arguments):
        return None
    return body[0].name.partition(".")[2] if list(body[1].operands) == list(body[0].results) else None


def _combiner(op: Any, dtype: str) -> str:
    name = combining_operator(op)
    name = _ON_BOOLS.get(str(name), name) if dtype == "bool" else name
    if name not in _REDUCERS or (name in ("and", "or") and dtype != "bool"):
        raise Unsupported(f"that combines {dtype} by {name or 'several operators'}")
    return name


def _dtype(value: Any) -> str:
    return str(value.ty.dtype)


def _reduce(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    axes = integers(op, "dimensions")
    if len(values) == 4:
        return _arg_extremum(conversion, op, values, axes)
    if len(values) != 2:
        raise Unsupported(f"of {len(values) // 2} arrays at once")
    value = conversion.whole(values[0])
    name = _combiner(op, _dtype(value))
    reduce, combine, identity = _REDUCERS[name]
    result = conversion.emit(reduce(value, axes)) if axes else value
    if _is_identity(values[1], identity(_dtype(value))):
        return result
    return combine(result, conversion.whole(values[1]))


def _is_identity(start: Value, identity: float) -> bool:
    return isinstance(start, np.ndarray) and bool(start == identity)


def _arg_extremum(conversion: Conversion, op: Any, values: list[Value], axes: list[int]) -> Any:
    body = [inner.operation for inner in op.regions[0].blocks[0].operations][:-1]
    names = tuple(_operation_name(inner) for inner in body)
    kinds = {"compare GT": (relax.op.argmax, relax.op.max), "compare LT": (relax.op.argmin, relax.op.min)}
    indices = values[1]
    is_argmax = (
        len(axes) == 1
        and names[0] in kinds
        and ("compare", *names[1:]) == _ARGMAX
        and isinstance(indices, np.ndarray)
        and np.array_equal(indices, np.broadcast_to(axis_indices(extents(indices), axes[0]), extents(indices)))
    )
    if not is_argmax:
        raise Unsupported("of two arrays at once, other than argmax and argmin")
    index_of, extremum = kinds[names[0]]
    value = conversion.whole(values[0])
    is_bool = _dtype(value) == "bool"  # TVM has no smallest bool
    value = conversion.emit(relax.op.astype(value, "int8")) if is_bool else value
    result = conversion.emit(extremum(value, axes))
    result = relax.op.astype(result, "bool") if is_bool else result
    return [result, relax.op.astype(conversion.emit(index_of(value, axes[0])), str(indices.dtype))]


def _operation_name(operation: Any) -> str:
    name = operation.name.partition(".")[2]
    return f"compare {direction(operation.opview)}" if name == "compare" else name


def _reduce_window(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    if len(values) != 2:
        raise Unsupported(f"of {len(values) // 2} arrays at once")
    value = conversion.emit(conversion.whole(values[0]))
    shape, rank = extents(value), len(extents(value))
    window = integers(op, "window_dimensions")
    strides, dilations = (integers(op, f"window_{name}", [1] * rank) for name in ("strides", "dilations"))
    pads = integers(op, "padding", [0] * 2 * rank)
    pairs = list(zip(pads[::2], pads[1::2], strict=True))
    name = _combiner(op, _dtype(value))
    if any(n != 1 for n in integers(op, "base_dilations")):
        raise Unsupported("over a dilated array")
    if min(pads, default=0) < 0:
        raise Unsupported("with negative padding")
    if not _is_identity(values[1], _REDUCERS[name][2](_dtype(value))):
        raise Unsupported("with an initial value that changes the result")
    axes = [a for a in range(rank) if (window[a], strides[a], dilations[a], pairs[a]) != (1, 1, 1, (0, 0))]
    if not axes:
        return value
    if len(axes) == 1 and (window[axes[0]], strides[axes[0]], dilations[axes[0]]) == (shape[axes[0]], 1, 1):
        running = _running_reduction(conversion, name, value, axes[0], pairs[axes[0]])
        if running is not None:
            return running
    return _pool(
        conversion,
        name,
        value,
        axes,
        [[sizes[a] for a in axes] for sizes in (window, strides, dilations)],
        [pairs[a] for a in axes],
    )


def _running_reduction(conversion: Conversion, name: str, value: Any, axis: int, pair: tuple[int, int]) -> Any:
    """A running sum or product, if the windows extend from one end to each element; else None."""
    rest = extents(value)[axis] - 1
    running = {"add": relax.op.cumsum, "multiply": relax.op.cumprod}.get(name)
    if running is None or pair not in ((rest, 0), (0, rest)):
        return None
    if pair == (rest, 0):
        return running(value, axis)
    return relax.op.flip(conversion.emit(running(conversion.emit(relax.op.flip(value, axis)), axis)), axis)


_POOLS = {
    "maximum": (relax.op.nn.max_pool1d, relax.op.nn.max_pool2d, relax.op.nn.max_pool3d),
    "add": (relax.op.nn.avg_pool1d, relax.op.nn.avg_pool2d, relax.op.nn.avg_pool3d),
}


def _pool(
    conversion: Conversion, name: str, value: Any, axes: list[int], sizes: list[list[int]], pairs: list[tuple[int, int]]
) -> Any:
    """Pool over the last axes; a sum is an average times the window's size, a minimum is a negated maximum."""
    if not _dtype(value).startswith("float") or name not in ("maximum", "minimum", "add") or len(axes) > 3:
        raise Unsupported(f"that combines {_dtype(value)} by {name} along {len(axes)} axes")
    shape = extents(value)
    outer = [a for a in range(len(shape)) if a not in axes]
    order = outer + axes
    transposed = conversion.transpose(value, order)
    flat = conversion.reshape(transposed, [1, math.prod(shape[a] for a in outer), *(shape[a] for a in axes)])
    window, strides, dilations = sizes
    padding = [low for low, _ in pairs] + [high for _, high in pairs]
    flat = conversion.emit(relax.op.negative(flat)) if name == "minimum" else flat
    kind = _POOLS["add" if name == "add" else "maximum"][len(axes) - 1]
    result = conversion.emit(kind(flat, window, strides, padding, dilations, count_include_pad=True))
    if name == "add":
        result = conversion.emit(relax.op.multiply(result, relax.const(float(math.prod(window)), _dtype(value))))
    result = conversion.emit(relax.op.negative(result)) if name == "minimum" else result
    result = conversion.reshape(result, [*(shape[a] for a in outer), *extents(result)[2:]])
    return conversion.transpose(result, np.argsort(order).tolist())


CONVERTERS: dict[str, Converter] = {
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
}
