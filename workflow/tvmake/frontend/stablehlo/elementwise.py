"""Convert element-wise operators."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jax.extend.mlir.dialects import stablehlo

from tvmake.frontend.lowering import stable_math
from tvmake.frontend.lowering.bitcast import bitcast
from tvmake.frontend.stablehlo.conversion import Conversion, Converter, Unsupported, Value, direction, extents, is_known
from tvmake.frontend.stablehlo.source import tensor_type

from tvm import relax  # isort: skip


def _constant(_conversion: Conversion, op: Any, _values: list[Value]) -> Value:
    attribute = op.attributes["value"]
    result_type = tensor_type(op.results[0].type)
    if result_type is None:
        raise Unsupported(f"{op.results[0].type}")
    shape, dtype = tuple(op.results[0].type.shape), result_type[1]
    try:
        if attribute.is_splat:
            return np.broadcast_to(np.array(attribute.get_splat_value().value, dtype), shape)
        return np.array(attribute).astype(dtype).reshape(shape)
    except (AttributeError, ValueError, TypeError) as error:
        raise Unsupported("its values are stored outside the module") from error


def _elementwise(compute: Callable[..., Any], known: Callable[..., Any] | None = None) -> Converter:
    def convert(conversion: Conversion, op: Any, values: list[Value]) -> Any:
        if known is not None and is_known(values, math.prod(shape := _shape(values))):
            with np.errstate(all="ignore"):
                return np.broadcast_to(known(*values), shape)
        return compute(*(conversion.thin(value) for value in values))

    return convert


def _shape(values: list[Value]) -> tuple[Any, ...]:
    """The shape of an element-wise result; scalars may select from, or limit, a tensor."""
    return max(map(extents, values), key=len)


def compute(conversion: Conversion, name: str, shape: tuple[int, ...], dtype: str, values: list[Any]) -> Any:
    """Apply an element-wise function.

    Args:
        conversion: emits the bindings.
        name: StableHLO's name, ``max`` or ``less``.
        shape: of the result.
        dtype: of the result; empty for any.
        values: the operands.
    """
    function, known = _FURTHER.get(name) or _FUNCTIONS[name]
    if known is not None and is_known(values, math.prod(shape)):
        with np.errstate(all="ignore"):
            return np.broadcast_to(known(*values), shape)
    result = conversion.emit(function(*(conversion.thin(value) for value in values)))
    return conversion.with_type(result, shape, dtype if name != "less" and dtype else str(result.ty.dtype))


def cast(conversion: Conversion, value: Value, dtype: str) -> Any:
    """Cast a value; axes along which it repeats may have size 1 in the result."""
    if isinstance(value, np.ndarray):
        # Convert repeated elements once.
        once = value[tuple(slice(0, 1) if step == 0 else slice(None) for step in value.strides)]
        return np.broadcast_to(once.astype(dtype), value.shape)
    thin = conversion.thin(value)
    return thin if str(thin.ty.dtype) == dtype else relax.op.astype(thin, dtype)


def _is(expression: Any, *kinds: str) -> bool:
    return str(expression.ty.dtype).startswith(kinds)


def _remainder(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    """A remainder with the dividend's sign, like C's ``%`` and ``fmod``; Relax's has the divisor's sign."""
    if is_known(values, math.prod(shape := _shape(values))):
        with np.errstate(all="ignore"):
            return np.broadcast_to(np.fmod(*values), shape)
    a, b = (conversion.thin(value) for value in values)
    is_zero = None if _is_nonzero(values[1]) or not _is(a, "int", "uint") else _equals_zero(conversion, b)
    b = b if is_zero is None else _without_zeros(conversion, b, is_zero)
    size = conversion.emit(relax.op.floor_mod(relax.op.abs(a), relax.op.abs(b))) if not _is(a, "uint") else None
    if size is None:
        result = relax.op.floor_mod(a, b)
    else:
        result = relax.op.where(relax.op.less(a, relax.const(0, str(a.ty.dtype))), relax.op.negative(size), size)
    return result if is_zero is None else relax.op.where(is_zero, a, conversion.emit(result))


def _divide(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    """A quotient; -1 of integers divided by zero, as in XLA: processors raise an exception."""
    quotient = _elementwise(relax.op.divide, lambda a, b: a / b if a.dtype.kind == "f" else np.trunc(a / b))
    if _is_nonzero(values[1]) or not _is(b := conversion.thin(values[1]), "int", "uint"):
        return quotient(conversion, op, values)
    is_zero = _equals_zero(conversion, b)
    result = quotient(conversion, op, [values[0], _without_zeros(conversion, b, is_zero)])
    minus = relax.const(np.array(-1).astype(str(b.ty.dtype)))
    return relax.op.where(is_zero, minus, conversion.emit(result))


def _is_nonzero(value: Value) -> bool:
    """Whether a divisor is known, and nowhere zero."""
    return isinstance(value, np.ndarray) and value.dtype != object and bool(np.all(value))


def _equals_zero(conversion: Conversion, value: Any) -> Any:
    return conversion.emit(relax.op.equal(value, relax.const(0, str(value.ty.dtype))))


def _without_zeros(conversion: Conversion, value: Any, is_zero: Any) -> Any:
    """A divisor with 1 instead of 0."""
    return conversion.emit(relax.op.where(is_zero, relax.const(1, str(value.ty.dtype)), value))


def _round_away(x: Any) -> Any:
    half = relax.const(0.5, str(x.ty.dtype))
    return relax.op.multiply(relax.op.sign(x), relax.op.floor(relax.op.add(relax.op.abs(x), half)))


def _cbrt(x: Any) -> Any:
    third = relax.const(1 / 3, str(x.ty.dtype))
    return relax.op.multiply(relax.op.sign(x), relax.op.power(relax.op.abs(x), third))


def _logical(of_bools: Callable[..., Any], of_integers: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: (of_bools if _is(values[0], "bool") else of_integers)(*values)


def _differ(a: Any, b: Any) -> Any:
    # TVM compiles a comparison of booleans to LLVM's comparison of floating-point values.
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


def _bits(conversion: Conversion, value: Value, dtype: str) -> Value:
    """Reinterpret the bits as another dtype of the same width."""
    if isinstance(value, np.ndarray):
        return value.astype(value.dtype, order="C").view(dtype)
    return bitcast(conversion.builder, value, dtype)


def _bitcast(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    result_type, operand_type = (tensor_type(value.type) for value in (op.results[0], op.operands[0]))
    if (
        result_type is None
        or operand_type is None
        or np.dtype(result_type[1]).itemsize != np.dtype(operand_type[1]).itemsize
        or "bool" in (result_type[1], operand_type[1])
    ):
        raise Unsupported(f"from {op.operands[0].type} to {op.results[0].type}")
    return values[0] if result_type[1] == operand_type[1] else _bits(conversion, values[0], result_type[1])


def _order_keys(conversion: Conversion, value: Value) -> Value:
    """Integers in the total order of floating-point values: -0 before 0, NaN at both ends (IEEE 754-2008, 5.10)."""
    dtype = str(value.dtype if isinstance(value, np.ndarray) else value.ty.dtype)
    if not dtype.startswith("float"):
        return value
    width = int(dtype.removeprefix("float"))
    integer, rest = _bits(conversion, value, f"int{width}"), 2 ** (width - 1) - 1
    if isinstance(integer, np.ndarray):
        return np.asarray(integer ^ ((integer >> (width - 1)) & rest))
    sign = conversion.emit(relax.op.right_shift(integer, relax.const(width - 1, f"int{width}")))
    flipped = conversion.emit(relax.op.bitwise_and(sign, relax.const(rest, f"int{width}")))
    return conversion.emit(relax.op.bitwise_xor(integer, flipped))


def _shift_right_logical(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    _, dtype = tensor_type(op.results[0].type) or ((), "")
    plain = dtype if dtype.startswith("u") else f"u{dtype}"
    width = np.dtype(dtype).itemsize * 8
    if is_known(values, math.prod(_shape(values))):
        value, shift = (np.asarray(operand).astype(plain) for operand in values)
        return np.where(shift < width, value >> np.minimum(shift, width - 1), 0).astype(dtype)
    value, shift = (conversion.emit(relax.op.astype(conversion.whole(operand), plain)) for operand in values)
    return relax.op.astype(conversion.emit(relax.op.right_shift(value, shift)), dtype)


def _compare(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    if "compare_type" in op.attributes and stablehlo.ComparisonTypeAttr(op.compare_type).value == "TOTALORDER":
        values = [_order_keys(conversion, value) for value in values]
    return _elementwise(*_COMPARISONS[direction(op)])(conversion, op, values)


def _convert(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    result_type = tensor_type(op.results[0].type)
    if result_type is None:
        raise Unsupported(f"to {op.results[0].type}")
    dtype = result_type[1]
    if (
        dtype == "bool"
        and not isinstance(values[0], np.ndarray)
        and not _is(value := conversion.thin(values[0]), "bool")
    ):
        return relax.op.not_equal(value, relax.const(0, str(value.ty.dtype)))
    return cast(conversion, values[0], dtype)


def _maximum(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    for value, bound in (values, reversed(values)):
        if (
            isinstance(bound, np.ndarray)
            and not isinstance(value, np.ndarray)
            and not bound.any()
            and _is(value, "float")
        ):
            return relax.op.nn.relu(value)
    return _elementwise(relax.op.maximum, np.maximum)(conversion, op, values)


def _reduce_precision(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    widths = (op.exponent_bits.value, op.mantissa_bits.value)
    kinds = {(5, 10): "float16", (8, 7): "bfloat16", (8, 23): "float32"}
    if widths not in kinds:
        raise Unsupported(f"{widths[0]} exponent and {widths[1]} mantissa bits")
    value = conversion.whole(values[0])
    return relax.op.astype(relax.op.astype(value, kinds[widths]), str(value.ty.dtype))


def _population(x: Any) -> Any:
    return _bits_set(x, str(x.ty.dtype))


def _bits_set(x: Any, dtype: str) -> Any:
    """The number of set bits, by sums of pairs, nibbles and bytes (H. Warren, "Hacker's Delight", 2nd edition, 2012, section 5-1)."""
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
    """The number of leading zeros: set all bits below the highest set one, and count the others."""
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
"""Functions of Relax expressions and of known arrays, by StableHLO's name."""

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
    "stablehlo.divide": _divide,
    "stablehlo.maximum": _maximum,
    "stablehlo.remainder": _remainder,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.shift_right_logical": _shift_right_logical,
    "stablehlo.optimization_barrier": lambda _conversion, _op, values: values,
    "custom_call @Sharding": lambda _conversion, _op, values: values,
    "sdy.sharding_constraint": lambda _conversion, _op, values: values,
    "chlo.erf": _elementwise(relax.op.erf),
}

ELEMENTWISE = frozenset(name for name in CONVERTERS if name.startswith(("stablehlo.", "chlo."))) - {
    "stablehlo.constant",
    "stablehlo.optimization_barrier",
}
"""Operators whose results have the shape of their operands."""
