"""Convert reductions of axes and of pooling windows."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvmake.frontend.stablehlo.conversion import (
    Conversion,
    Converter,
    Unsupported,
    Value,
    direction,
    extents,
    integers,
    is_iota,
)
from tvmake.frontend.stablehlo.shapes import pad_value

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
        and is_iota(conversion, indices, axes[0])
    )
    if not is_argmax:
        raise Unsupported("of two arrays at once, other than argmax and argmin")
    index_of, extremum = kinds[names[0]]
    value = conversion.whole(values[0])
    is_bool = _dtype(value) == "bool"  # TVM has no smallest bool
    value = conversion.emit(relax.op.astype(value, "int8")) if is_bool else value
    result = conversion.emit(extremum(value, axes))
    result = relax.op.astype(result, "bool") if is_bool else result
    return [result, relax.op.astype(conversion.emit(index_of(value, axes[0])), str(conversion.whole(indices).ty.dtype))]


def _operation_name(operation: Any) -> str:
    name = operation.name.partition(".")[2]
    return f"compare {direction(operation.opview)}" if name == "compare" else name


def _reduce_window(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    if len(values) != 2:
        raise Unsupported(f"of {len(values) // 2} arrays at once")
    rank = len(extents(values[0]))
    strides, dilations, base = (
        integers(op, name, [1] * rank) for name in ("window_strides", "window_dilations", "base_dilations")
    )
    sizes = [integers(op, "window_dimensions"), strides, dilations, base, integers(op, "padding", [0] * 2 * rank)]
    return reduce_windows(conversion, _combiner(op, _dtype(conversion.whole(values[0]))), values, sizes)


def reduce_windows(conversion: Conversion, name: str, values: list[Value], sizes: Sequence[Sequence[Any]]) -> Any:
    """Combine the elements of windows.

    Args:
        conversion: emits the bindings.
        name: the operator that combines elements.
        values: the array and the initial value.
        sizes: the windows' extents, strides and dilations, the array's dilations, and pairs of padding, for each axis.
    """
    value = conversion.emit(conversion.whole(values[0]))
    shape, rank = extents(value), len(extents(value))
    window, strides, dilations, base, pads = sizes
    pairs = list(zip(pads[::2], pads[1::2], strict=True))
    if any(n != 1 for n in base):
        raise Unsupported("over a dilated array")
    if not all(conversion.sizes.is_at_most(0, pad) for pad in pads):
        raise Unsupported("with negative padding")
    if not _is_identity(values[1], _REDUCERS[name][2](_dtype(value))):
        raise Unsupported("with an initial value that changes the result")
    is_same = conversion.sizes.have_same_shape
    axes = [a for a in range(rank) if not is_same((window[a], strides[a], dilations[a], *pairs[a]), (1, 1, 1, 0, 0))]
    if not axes:
        return value
    if len(axes) == 1 and is_same((window[axes[0]], strides[axes[0]], dilations[axes[0]]), (shape[axes[0]], 1, 1)):
        running = _running_reduction(conversion, name, value, axes[0], pairs[axes[0]])
        if running is not None:
            return running
    if not all(isinstance(n, int) for n in (*window, *pads)):
        if not all(isinstance(n, int) for n in window):
            raise Unsupported("over windows of a dynamic size")
        value = pad_value(conversion, value, pads[::2], pads[1::2], filling=_REDUCERS[name][2](_dtype(value)))
        pairs = [(0, 0)] * rank
    return _pool(
        conversion,
        name,
        value,
        axes,
        [[sizes[a] for a in axes] for sizes in (window, strides, dilations)],
        [pairs[a] for a in axes],
    )


def _running_reduction(conversion: Conversion, name: str, value: Any, axis: int, pair: Sequence[Any]) -> Any:
    """A running sum or product, if the windows extend from one end to each element; else None."""
    rest = extents(value)[axis] - 1
    running = {"add": relax.op.cumsum, "multiply": relax.op.cumprod}.get(name)
    is_same = conversion.sizes.have_same_shape
    if running is None or not (is_same(pair, (rest, 0)) or is_same(pair, (0, rest))):
        return None
    if is_same(pair, (rest, 0)):
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
