"""Element-wise operators."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jax.extend.mlir.dialects import stablehlo

from tvmake.frontend.lowering import stable_math
from tvmake.frontend.lowering.bitcast import bitcast
from tvmake.frontend.stablehlo.conversion import Conversion, Converter, Unsupported, Value, is_known
from tvmake.frontend.stablehlo.source import tensor_type

from tvm import relax  # isort: skip


def _constant(_at: Conversion, op: Any, _values: list[Value]) -> Value:
    attribute = op.attributes["value"]
    found = tensor_type(op.results[0].type)
    if found is None:
        raise Unsupported(f"{op.results[0].type}")
    shape, dtype = found
    try:
        if attribute.is_splat:
            return np.broadcast_to(np.array(attribute.get_splat_value().value, dtype), shape)
        return np.array(attribute).astype(dtype).reshape(shape)
    except (AttributeError, ValueError, TypeError) as error:
        raise Unsupported("its values are stored apart from the module") from error


def _elementwise(compute: Callable[..., Any], known: Callable[..., Any] | None = None) -> Converter:
    def convert(at: Conversion, op: Any, values: list[Value]) -> Any:
        shape = tuple(op.results[0].type.shape)
        if known is not None and is_known(values, math.prod(shape)):
            with np.errstate(all="ignore"):
                return np.broadcast_to(known(*values), shape)
        return compute(*(at.thin(value) for value in values))

    return convert


def computed(at: Conversion, name: str, shape: tuple[int, ...], dtype: str, values: list[Any]) -> Any:
    """A function of elements, by StableHLO's name, or ``max`` or ``less``; its result is of a shape and, unless that is empty, a type."""
    function, known = _FURTHER.get(name) or _FUNCTIONS[name]
    if known is not None and is_known(values, math.prod(shape)):
        with np.errstate(all="ignore"):
            return np.broadcast_to(known(*values), shape)
    found = at.emit(function(*(at.thin(value) for value in values)))
    return at.settled(found, shape, dtype if name != "less" and dtype else str(found.ty.dtype))


def cast(at: Conversion, value: Value, dtype: str) -> Any:
    """A value, which may repeat, in another type of numbers."""
    if isinstance(value, np.ndarray):
        # Only what does not repeat is converted.
        once = value[tuple(slice(0, 1) if step == 0 else slice(None) for step in value.strides)]
        return np.broadcast_to(once.astype(dtype), value.shape)
    thin = at.thin(value)
    return thin if str(thin.ty.dtype) == dtype else relax.op.astype(thin, dtype)


def _is(expression: Any, *kinds: str) -> bool:
    return str(expression.ty.dtype).startswith(kinds)


def _remainder(at: Conversion, op: Any, values: list[Value]) -> Any:
    """With the sign of the dividend, as C's ``%`` and ``fmod``; Relax has the one of the divisor."""
    shape = tuple(op.results[0].type.shape)
    if is_known(values, math.prod(shape)):
        with np.errstate(all="ignore"):
            return np.broadcast_to(np.fmod(*values), shape)
    a, b = (at.thin(value) for value in values)
    size = at.emit(relax.op.floor_mod(relax.op.abs(a), relax.op.abs(b))) if not _is(a, "uint") else None
    if size is None:
        return relax.op.floor_mod(a, b)
    return relax.op.where(relax.op.less(a, relax.const(0, str(a.ty.dtype))), relax.op.negative(size), size)


def _round_away(x: Any) -> Any:
    half = relax.const(0.5, str(x.ty.dtype))
    return relax.op.multiply(relax.op.sign(x), relax.op.floor(relax.op.add(relax.op.abs(x), half)))


def _cbrt(x: Any) -> Any:
    third = relax.const(1 / 3, str(x.ty.dtype))
    return relax.op.multiply(relax.op.sign(x), relax.op.power(relax.op.abs(x), third))


def _logical(of_bools: Callable[..., Any], of_integers: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: (of_bools if _is(values[0], "bool") else of_integers)(*values)


def _differ(a: Any, b: Any) -> Any:
    # LLVM's comparison of floating-point numbers is what TVM makes of one of bools.
    return relax.op.logical_xor(a, b) if _is(a, "bool") else relax.op.not_equal(a, b)


def _agree(a: Any, b: Any) -> Any:
    return relax.op.logical_not(relax.op.logical_xor(a, b)) if _is(a, "bool") else relax.op.equal(a, b)


_COMPARISONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "EQ": (_agree, np.equal),
    "NE": (_differ, np.not_equal),
    "LT": (relax.op.less, np.less),
    "LE": (relax.op.less_equal, np.less_equal),
    "GT": (relax.op.greater, np.greater),
    "GE": (relax.op.greater_equal, np.greater_equal),
}


def direction(op: Any) -> str:
    """``LT`` and the like, of a comparison."""
    return str(stablehlo.ComparisonDirectionAttr(op.comparison_direction).value)


def _bits(at: Conversion, value: Value, dtype: str) -> Value:
    """The same bits as another type of the same width."""
    if isinstance(value, np.ndarray):
        return value.astype(value.dtype, order="C").view(dtype)
    return bitcast(at.builder, value, dtype)


def _bitcast(at: Conversion, op: Any, values: list[Value]) -> Any:
    found, given = (tensor_type(value.type) for value in (op.results[0], op.operands[0]))
    if (
        found is None
        or given is None
        or np.dtype(found[1]).itemsize != np.dtype(given[1]).itemsize
        or "bool" in (found[1], given[1])
    ):
        raise Unsupported(f"from {op.operands[0].type} to {op.results[0].type}")
    return values[0] if found[1] == given[1] else _bits(at, values[0], found[1])


def _ordered(at: Conversion, value: Value) -> Value:
    """Integers in the total order of floating-point numbers: -0 before 0, and what is no number at the ends (IEEE 754-2008, 5.10)."""
    dtype = str(value.dtype if isinstance(value, np.ndarray) else value.ty.dtype)
    if not dtype.startswith("float"):
        return value
    width = int(dtype.removeprefix("float"))
    integer, rest = _bits(at, value, f"int{width}"), 2 ** (width - 1) - 1
    if isinstance(integer, np.ndarray):
        return np.asarray(integer ^ ((integer >> (width - 1)) & rest))
    sign = at.emit(relax.op.right_shift(integer, relax.const(width - 1, f"int{width}")))
    flipped = at.emit(relax.op.bitwise_and(sign, relax.const(rest, f"int{width}")))
    return at.emit(relax.op.bitwise_xor(integer, flipped))


def _shift_right_logical(at: Conversion, op: Any, values: list[Value]) -> Any:
    shape, dtype = tensor_type(op.results[0].type) or ((), "")
    plain = dtype if dtype.startswith("u") else f"u{dtype}"
    width = np.dtype(dtype).itemsize * 8
    if is_known(values, math.prod(shape)):
        value, places = (np.asarray(one).astype(plain) for one in values)
        return np.where(places < width, value >> np.minimum(places, width - 1), 0).astype(dtype)
    value, places = (at.emit(relax.op.astype(at.whole(one), plain)) for one in values)
    return relax.op.astype(at.emit(relax.op.right_shift(value, places)), dtype)


def _compare(at: Conversion, op: Any, values: list[Value]) -> Any:
    if "compare_type" in op.attributes and stablehlo.ComparisonTypeAttr(op.compare_type).value == "TOTALORDER":
        values = [_ordered(at, value) for value in values]
    return _elementwise(*_COMPARISONS[direction(op)])(at, op, values)


def _convert(at: Conversion, op: Any, values: list[Value]) -> Any:
    found = tensor_type(op.results[0].type)
    if found is None:
        raise Unsupported(f"to {op.results[0].type}")
    if found[1] == "bool" and not isinstance(values[0], np.ndarray) and not _is(value := at.thin(values[0]), "bool"):
        return relax.op.not_equal(value, relax.const(0, str(value.ty.dtype)))
    return cast(at, values[0], found[1])


def _maximum(at: Conversion, op: Any, values: list[Value]) -> Any:
    for value, other in (values, reversed(values)):
        if (
            isinstance(other, np.ndarray)
            and not isinstance(value, np.ndarray)
            and not other.any()
            and _is(value, "float")
        ):
            return relax.op.nn.relu(value)
    return _elementwise(relax.op.maximum, np.maximum)(at, op, values)


def _reduce_precision(at: Conversion, op: Any, values: list[Value]) -> Any:
    widths = (op.exponent_bits.value, op.mantissa_bits.value)
    kinds = {(5, 10): "float16", (8, 7): "bfloat16", (8, 23): "float32"}
    if widths not in kinds:
        raise Unsupported(f"{widths[0]} exponent and {widths[1]} mantissa bits")
    value = at.whole(values[0])
    return relax.op.astype(relax.op.astype(value, kinds[widths]), str(value.ty.dtype))


def _population(x: Any) -> Any:
    return _bits_set(x, str(x.ty.dtype))


def _bits_set(x: Any, dtype: str) -> Any:
    """How many bits are set, by sums of pairs, of fours, of bytes (H. Warren, "Hacker's Delight", 2nd edition, 2012, section 5-1)."""
    width = np.dtype(dtype).itemsize * 8

    def repeated(byte: int) -> Any:
        return relax.const(np.array(int.from_bytes(bytes([byte]) * (width // 8), "little"), dtype))

    def moved(count: int) -> Any:
        return relax.op.right_shift(x, relax.const(np.array(count, dtype)))

    x = relax.op.subtract(x, relax.op.bitwise_and(moved(1), repeated(0x55)))
    x = relax.op.add(relax.op.bitwise_and(x, repeated(0x33)), relax.op.bitwise_and(moved(2), repeated(0x33)))
    x = relax.op.bitwise_and(relax.op.add(x, moved(4)), repeated(0x0F))
    for count in (8, 16, 32):
        x = relax.op.add(x, moved(count)) if count < width else x
    return relax.op.bitwise_and(x, relax.const(np.array(0x7F, dtype)))


def _leading_zeros(x: Any) -> Any:
    """How many bits are above the highest one that is set: all below that are set, and the others counted."""
    dtype = str(x.ty.dtype)
    for count in (1, 2, 4, 8, 16, 32):
        if count < np.dtype(dtype).itemsize * 8:
            x = relax.op.bitwise_or(x, relax.op.right_shift(x, relax.const(np.array(count, dtype))))
    return _bits_set(relax.op.bitwise_not(x), dtype)


def _clamp(low: Any, value: Any, high: Any) -> Any:
    return relax.op.minimum(relax.op.maximum(value, low), high)


_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = {
    "abs": (relax.op.abs, np.abs),
    "add": (lambda a, b: (relax.op.logical_or if _is(a, "bool") else relax.op.add)(a, b), np.add),
    "and": (_logical(relax.op.logical_and, relax.op.bitwise_and), np.bitwise_and),
    "atan2": (relax.op.atan2, np.arctan2),
    "cbrt": (_cbrt, np.cbrt),
    "ceil": (relax.op.ceil, np.ceil),
    "clamp": (_clamp, lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    "cosine": (relax.op.cos, np.cos),
    "count_leading_zeros": (_leading_zeros, None),
    "divide": (relax.op.divide, lambda a, b: a / b if a.dtype.kind == "f" else np.trunc(a / b)),
    "exponential": (relax.op.exp, np.exp),
    "exponential_minus_one": (stable_math.expm1, np.expm1),
    "floor": (relax.op.floor, np.floor),
    "is_finite": (relax.op.isfinite, np.isfinite),
    "log": (relax.op.log, np.log),
    "log_plus_one": (stable_math.log1p, np.log1p),
    "logistic": (relax.op.sigmoid, None),
    "minimum": (relax.op.minimum, np.minimum),
    "multiply": (lambda a, b: (relax.op.logical_and if _is(a, "bool") else relax.op.multiply)(a, b), np.multiply),
    "negate": (relax.op.negative, np.negative),
    "not": (_logical(relax.op.logical_not, relax.op.bitwise_not), np.invert),
    "or": (_logical(relax.op.logical_or, relax.op.bitwise_or), np.bitwise_or),
    "popcnt": (_population, None),
    "power": (relax.op.power, np.power),
    "round_nearest_afz": (_round_away, None),
    "round_nearest_even": (relax.op.round, np.rint),
    "rsqrt": (relax.op.rsqrt, lambda x: 1 / np.sqrt(x)),
    "select": (relax.op.where, np.where),
    "shift_left": (relax.op.left_shift, np.left_shift),
    "shift_right_arithmetic": (relax.op.right_shift, np.right_shift),
    "sign": (relax.op.sign, np.sign),
    "sine": (relax.op.sin, np.sin),
    "sqrt": (relax.op.sqrt, np.sqrt),
    "subtract": (relax.op.subtract, np.subtract),
    "tan": (relax.op.tan, np.tan),
    "tanh": (relax.op.tanh, np.tanh),
    "xor": (_logical(relax.op.logical_xor, relax.op.bitwise_xor), np.bitwise_xor),
}
"""By name: of Relax expressions, and of arrays that are known."""

_FURTHER: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "less": (relax.op.less, np.less),
    "max": (relax.op.maximum, np.maximum),
}

CONVERTERS: dict[str, Converter] = {
    **{f"stablehlo.{name}": _elementwise(*functions) for name, functions in _FUNCTIONS.items()},
    "stablehlo.constant": _constant,
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.compare": _compare,
    "stablehlo.convert": _convert,
    "stablehlo.maximum": _maximum,
    "stablehlo.remainder": _remainder,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.shift_right_logical": _shift_right_logical,
    "stablehlo.optimization_barrier": lambda _at, _op, values: values,
    "chlo.erf": _elementwise(relax.op.erf),
}
