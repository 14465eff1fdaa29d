"""Convert complex values to pairs of real values, and Fourier transforms to matmuls: TVM has no complex types."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from jax.extend.mlir.dialects import stablehlo

from tvmake.frontend.lowering.complex_arithmetic import ComplexArithmetic, Pair
from tvmake.frontend.lowering.fourier import MAX_LENGTH, FourierStep, Kind, fourier_steps
from tvmake.frontend.lowering.tables import merge_tables
from tvmake.frontend.stablehlo import dot_and_convolution, elementwise, gather, reductions, scatter, shapes
from tvmake.frontend.stablehlo.conversion import Conversion, Converter, Unsupported, Value, direction, extents, is_known
from tvmake.frontend.stablehlo.dynamic import operators as dynamic_operators
from tvmake.frontend.stablehlo.source import complex_type, shape_of_type

from tvm import relax  # isort: skip

_CONSTANT = re.compile(r"dense<(.*)> : tensor<", re.DOTALL)
_NUMBER = re.compile(r"\(([^,()]+),([^,()]+)\)")

Rule: TypeAlias = "Callable[[_Parts, Pair], Pair]"


def _partwise(convert: Converter) -> Converter:
    """Apply a real converter to both parts separately; index and condition operands are real."""

    def rule(conversion: Conversion, op: Any, values: list[Any]) -> Pair:
        halves = [[value[half] if isinstance(value, Pair) else value for value in values] for half in (0, 1)]
        return Pair(convert(conversion, op, halves[0]), convert(conversion, op, halves[1]))

    return rule


def _reduce(conversion: Conversion, op: Any, values: list[Any]) -> Any:
    combined = reductions.combining_operator(op)
    if (
        combined == "multiply"
        and len(values) == 2
        and is_known([*values[0], *values[1]], math.prod(extents(values[0][0])))
    ):
        numbers, start = (pair[0] + 1j * pair[1] for pair in values)
        result = np.prod(numbers, tuple(shapes.integers(op, "dimensions"))) * start
        return Pair(np.asarray(result.real), np.asarray(result.imag))
    if combined != "add":
        raise Unsupported("that combines complex numbers by anything but a sum")
    convert = reductions.CONVERTERS[op.operation.name]
    return _partwise(convert)(conversion, op, values)


def _scatter(conversion: Conversion, op: Any, values: list[Any]) -> Any:
    combined = scatter.reduction(op)
    if combined == "mul" and _is_zero(values[-1][1]):  # real factors multiply both parts
        values = [*values[:-1], values[-1][0]]
    elif combined not in ("update", "add"):
        raise Unsupported("that combines complex numbers by anything but a sum")
    return _partwise(scatter.CONVERTERS["stablehlo.scatter"])(conversion, op, values)


def _constant(_conversion: Conversion, op: Any, _values: list[Any]) -> Pair:
    result_type = complex_type(op.results[0].type)
    match = _CONSTANT.search(op.operation.get_asm(large_elements_limit=None, enable_debug_info=False))
    if result_type is None or match is None:
        raise Unsupported("its values are stored outside the module")
    shape, dtype, text = tuple(op.results[0].type.shape), result_type[1], match[1]
    if text.startswith('"0x'):
        numbers = np.frombuffer(bytes.fromhex(text.strip('"')[2:]), dtype).reshape(-1, 2)
    else:
        pairs = _NUMBER.findall(text)
        numbers = np.array([[_number(part, dtype) for part in pair] for pair in pairs], dtype).reshape(-1, 2)
    parts = (numbers[:, half] for half in (0, 1))
    return Pair(*(np.broadcast_to(part[0], shape) if len(part) == 1 else part.reshape(shape) for part in parts))


def _number(text: str, dtype: str) -> float:
    """Parse a number of MLIR's text; hexadecimal digits are its bits."""
    if not text.strip().startswith("0x"):
        return float(text)
    digits = text.strip()[2:].zfill(2 * np.dtype(dtype).itemsize)
    return float(np.frombuffer(bytes.fromhex(digits)[::-1], dtype)[0])


def _shape(op: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    """The shape of an operator's result; dynamic dimensions are those of the first operand of its rank."""
    shape = shape_of_type(op.results[0].type)
    parts = [value[0] if isinstance(value, Pair) else value for value in values]
    same = next((value for value in parts if len(extents(value)) == len(shape)), None)
    return shape if None not in shape or same is None else extents(same)


class _Parts(ComplexArithmetic):
    """Writes complex arithmetic for one operator on values of its result's shape."""

    def __init__(self, conversion: Conversion, op: Any, values: Sequence[Any] = ()):
        self.conversion = conversion
        kinds = [complex_type(value.type) for value in (*op.operands, *op.results)]
        self.shape = _shape(op, values)
        self.dtype = next(kind[1] for kind in kinds if kind is not None)

    def write(self, operator: str, *operands: Any) -> Any:
        """Write an operator on real values, by StableHLO's name."""
        return self(operator, *operands)

    def __call__(self, name: str, *values: Any) -> Any:
        """Write an operator on real values and numbers, by StableHLO's name."""
        operands = [
            self.repeat(np.array(value, self.dtype)) if isinstance(value, int | float) else value for value in values
        ]
        if name == "multiply" and any(_is_zero(value) for value in operands):
            return self.repeat(np.zeros((), self.dtype))
        if name in ("add", "subtract") and _is_zero(operands[1]):
            return operands[0]
        if name == "add" and _is_zero(operands[0]):
            return operands[1]
        return elementwise.compute(self.conversion, name, self.shape, self.dtype, operands)

    def repeat(self, number: np.ndarray) -> Value:
        """A number in the result's shape."""
        if all(isinstance(size, int) for size in self.shape):
            return np.broadcast_to(number, self.shape)
        thin = self.conversion.whole(number.reshape([1] * len(self.shape)))
        return self.conversion.broadcast(thin, self.shape)

    def divide(self, left: Pair, right: Pair) -> Pair:
        if _is_zero(right[1]):
            return Pair(self("divide", left[0], right[0]), self("divide", left[1], right[0]))
        numerator = self.multiply(left, Pair(right[0], self("negate", right[1])))
        square = self.squared_magnitude(right)
        return Pair(self("divide", numerator[0], square), self("divide", numerator[1], square))

    def exponential(self, pair: Pair) -> Pair:
        size = self("exponential", pair[0])
        return Pair(*(self("multiply", size, self(name, pair[1])) for name in ("cosine", "sine")))

    def hyperbolic(self, value: Value) -> tuple[Any, Any]:
        """Hyperbolic cosine and sine."""
        rising, falling = self("exponential", value), self("exponential", self("negate", value))
        cosh, sinh = (self("multiply", self(name, rising, falling), 0.5) for name in ("add", "subtract"))
        return cosh, sinh

    def inverse_root(self, pair: Pair) -> Pair:
        one, zero = (self.repeat(np.array(number, self.dtype)) for number in (1, 0))
        return self.divide(Pair(one, zero), self.sqrt(pair))

    def sine(self, pair: Pair) -> Pair:
        cosh, sinh = self.hyperbolic(pair[1])
        parts = self("multiply", self("sine", pair[0]), cosh), self("multiply", self("cosine", pair[0]), sinh)
        return Pair(*parts)

    def cosine(self, pair: Pair) -> Pair:
        cosh, sinh = self.hyperbolic(pair[1])
        parts = self("multiply", self("cosine", pair[0]), cosh), self("multiply", self("sine", pair[0]), sinh)
        return Pair(parts[0], self("negate", parts[1]))

    def tangent(self, pair: Pair) -> Pair:
        """The hyperbolic tangent, from the tangents of both parts, so that no part of the quotient overflows."""
        real, imaginary = self("tanh", pair[0]), self("tan", pair[1])
        denominator = Pair(self.repeat(np.ones((), self.dtype)), self("multiply", real, imaginary))
        return self.divide(Pair(real, imaginary), denominator)

    def sign(self, pair: Pair) -> Pair:
        """The value divided by its magnitude; 0 for 0."""
        size, zero = self.magnitude(pair), self.repeat(np.zeros((), self.dtype))
        safe = self("select", self("less", zero, size), size, 1.0)
        return Pair(self("divide", pair[0], safe), self("divide", pair[1], safe))


def _is_zero(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not value.any()


def _pair(value: Any) -> Pair:
    return value if isinstance(value, Pair) else Pair(value, np.zeros_like(value))


def _unary(rule: Rule) -> Converter:
    return lambda conversion, op, values: rule(_Parts(conversion, op, values), values[0])


def _binary(rule: Callable[[_Parts, Pair, Pair], Pair]) -> Converter:
    return lambda conversion, op, values: rule(_Parts(conversion, op, values), values[0], values[1])


def _power(write: _Parts, base: Pair, exponent: Pair) -> Pair:
    return write.exponential(write.multiply(exponent, write.log(base)))


def _compare(conversion: Conversion, op: Any, values: list[Any]) -> Any:
    compare, both = elementwise.CONVERTERS["stablehlo.compare"], direction(op)
    shape = _shape(op, values)
    parts = [
        conversion.with_type(compare(conversion, op, [value[half] for value in values]), shape, "bool")
        for half in (0, 1)
    ]
    return elementwise.compute(conversion, "and" if both == "EQ" else "or", shape, "bool", parts)


def _convert(conversion: Conversion, op: Any, values: list[Any]) -> Any:
    result_type = complex_type(op.results[0].type)
    if result_type is None:
        raise Unsupported(f"to {op.results[0].type}")
    parts = values[0] if isinstance(values[0], Pair) else [values[0]]
    dtype, write = result_type[1], _Parts(conversion, op, values)
    real, imaginary = (*(elementwise.cast(conversion, part, dtype) for part in parts), np.zeros((), dtype))[:2]
    return Pair(real, write.repeat(imaginary) if _is_zero(imaginary) else imaginary)


def _dot_general(conversion: Conversion, op: Any, values: list[Any]) -> Pair:
    return _bilinear(conversion, op, values, dot_and_convolution.CONVERTERS["stablehlo.dot_general"])


def _convolution(conversion: Conversion, op: Any, values: list[Any]) -> Pair:
    return _bilinear(conversion, op, values, dot_and_convolution.CONVERTERS["stablehlo.convolution"])


def _bilinear(conversion: Conversion, op: Any, values: list[Any], product: Converter) -> Pair:
    write = _Parts(conversion, op)

    def multiply_real(left: Any, right: Any) -> Any:
        if None not in write.shape and (_is_zero(left) or _is_zero(right)):
            return write.repeat(np.zeros((), write.dtype))
        return conversion.with_type(product(conversion, op, [left, right]), write.shape, write.dtype)

    return write.bilinear(multiply_real, *map(_pair, values))


KINDS: dict[str, Kind] = {"FFT": "forward", "IFFT": "inverse", "RFFT": "to_half", "IRFFT": "from_half"}
"""Directions by StableHLO's name."""


def _transform(conversion: Conversion, op: Any, values: list[Any]) -> Any:
    name = str(stablehlo.FftTypeAttr(op.fft_type).value)
    lengths, rank = shapes.integers(op, "fft_length"), len(op.results[0].type.shape)
    if max(lengths) > MAX_LENGTH:
        raise Unsupported(f"of {max(lengths)} elements; up to {MAX_LENGTH} are")
    axes = list(range(rank - len(lengths), rank))
    value = values[0]
    if is_known(list(value if isinstance(value, Pair) else values), math.prod(op.results[0].type.shape)):
        return _transform_known(name, value, axes, lengths)
    is_inverse = name in ("IFFT", "IRFFT")
    for step in fourier_steps(KINDS[name], axes, lengths, lambda _, length: 1 / length if is_inverse else 1.0):
        value = (
            _transform_to_real(conversion, value, step)
            if step.gives_real
            else _transform_along(conversion, value, step)
        )
    return value


def _transform_known(kind: str, value: Any, axes: Sequence[int], lengths: Sequence[int]) -> Any:
    numbers = value[0] + 1j * value[1] if isinstance(value, Pair) else value
    function: Any = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}[kind]
    result = function(numbers.astype("complex128" if kind != "RFFT" else "float64"), lengths, axes)
    return result if kind == "IRFFT" else Pair(result.real.copy(), result.imag.copy())


def _transform_along(conversion: Conversion, value: Any, step: FourierStep) -> Pair:
    axis, cosine, sine, _ = step
    if not isinstance(value, Pair):
        return Pair(_matmul_along(conversion, value, axis, cosine), _matmul_along(conversion, value, axis, sine))
    real, imaginary = value
    return Pair(
        _sum(
            conversion, _matmul_along(conversion, real, axis, cosine), _matmul_along(conversion, imaginary, axis, -sine)
        ),
        _sum(
            conversion, _matmul_along(conversion, real, axis, sine), _matmul_along(conversion, imaginary, axis, cosine)
        ),
    )


def _transform_to_real(conversion: Conversion, pair: Pair, step: FourierStep) -> Value:
    real = _matmul_along(conversion, pair[0], step.axis, step.cosine)
    return _sum(conversion, real, _matmul_along(conversion, pair[1], step.axis, -step.sine))


def _matmul_along(conversion: Conversion, data: Value, axis: int, matrix: np.ndarray) -> "Value | None":
    """A matmul along an axis; None if the data are zero."""
    if _is_zero(data):
        return None
    rank = len(extents(data))
    order = [a for a in range(rank) if a != axis] + [axis]
    transposed = conversion.whole(conversion.transpose(data, order))
    result = conversion.emit(relax.op.matmul(transposed, conversion.whole(matrix.astype(str(transposed.ty.dtype)))))
    return conversion.transpose(result, [order.index(a) for a in range(rank)])


def _sum(conversion: Conversion, left: "Value | None", right: "Value | None") -> Value:
    if left is None or right is None:
        value = right if left is None else left
        assert value is not None
        return value
    return elementwise.compute(conversion, "add", extents(left), "", [left, right])


_RESHAPING = ("broadcast_in_dim", "gather", "pad", "reshape")

_PARTWISE: dict[str, Converter] = {
    **{name: convert for name, convert in shapes.CONVERTERS.items() if name != "stablehlo.iota"},
    **gather.CONVERTERS,
    **{
        name: dynamic_operators.CONVERTERS[name]
        for name in (*(f"stablehlo.dynamic_{kind}" for kind in _RESHAPING), "stablehlo.real_dynamic_slice")
    },
    **{
        f"stablehlo.{name}": elementwise.CONVERTERS[f"stablehlo.{name}"]
        for name in ("add", "negate", "select", "subtract")
    },
}

CONVERTERS: Mapping[str, Converter] = merge_tables(
    {name: _partwise(convert) for name, convert in _PARTWISE.items()},
    {
        "stablehlo.abs": lambda conversion, op, values: _Parts(conversion, op, values).magnitude(values[0]),
        "stablehlo.compare": _compare,
        "stablehlo.complex": lambda _conversion, _op, values: Pair(*values),
        "stablehlo.constant": _constant,
        "stablehlo.convert": _convert,
        "stablehlo.convolution": _convolution,
        "stablehlo.cosine": _unary(_Parts.cosine),
        "stablehlo.divide": _binary(_Parts.divide),
        "stablehlo.dot_general": _dot_general,
        "stablehlo.exponential": _unary(_Parts.exponential),
        "stablehlo.fft": _transform,
        "stablehlo.imag": lambda _conversion, _op, values: values[0][1],
        "stablehlo.log": _unary(_Parts.log),
        "stablehlo.multiply": _binary(_Parts.multiply),
        "stablehlo.optimization_barrier": lambda _conversion, _op, values: values,
        "stablehlo.power": _binary(_power),
        "stablehlo.real": lambda _conversion, _op, values: values[0][0],
        "stablehlo.reduce": _reduce,
        "stablehlo.reduce_window": _reduce,
        "stablehlo.rsqrt": _unary(_Parts.inverse_root),
        "stablehlo.scatter": _scatter,
        "stablehlo.sign": _unary(_Parts.sign),
        "stablehlo.sine": _unary(_Parts.sine),
        "stablehlo.sqrt": _unary(_Parts.sqrt),
        "stablehlo.tanh": _unary(_Parts.tangent),
    },
)
"""Converters by full name for operators with complex operands or results."""
