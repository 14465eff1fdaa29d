"""Complex values as pairs of real ones, and Fourier transforms as matmuls: TVM has no complex types."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from jax.extend.mlir.dialects import stablehlo

from tvmake.frontend.lowering.complex_arithmetic import ComplexArithmetic, Pair
from tvmake.frontend.lowering.fourier import MAX_LENGTH, FourierStep, Kind, fourier_steps
from tvmake.frontend.lowering.tables import merge_tables
from tvmake.frontend.stablehlo import dot_and_convolution, elementwise, reductions, scatter, shapes
from tvmake.frontend.stablehlo.conversion import Conversion, Converter, Unsupported, Value, extents, is_known
from tvmake.frontend.stablehlo.source import complex_type

from tvm import relax  # isort: skip

_CONSTANT = re.compile(r"dense<(.*)> : tensor<", re.DOTALL)
_NUMBER = re.compile(r"\(([^,()]+),([^,()]+)\)")

Rule: TypeAlias = "Callable[[_Parts, Pair], Pair]"


def _partwise(convert: Converter) -> Converter:
    """An operator that treats both parts alike, each by itself; places and choices are real."""

    def rule(at: Conversion, op: Any, values: list[Any]) -> Pair:
        halves = [[value[half] if isinstance(value, Pair) else value for value in values] for half in (0, 1)]
        return Pair(convert(at, op, halves[0]), convert(at, op, halves[1]))

    return rule


def _reduce(at: Conversion, op: Any, values: list[Any]) -> Any:
    combined = reductions.combined_by(op)
    if (
        combined == "multiply"
        and len(values) == 2
        and is_known([*values[0], *values[1]], math.prod(extents(values[0][0])))
    ):
        numbers, start = (pair[0] + 1j * pair[1] for pair in values)
        found = np.prod(numbers, tuple(shapes.integers(op, "dimensions"))) * start
        return Pair(np.asarray(found.real), np.asarray(found.imag))
    if combined != "add":
        raise Unsupported("that combines complex numbers by anything but a sum")
    convert = reductions.CONVERTERS[op.operation.name]
    return _partwise(convert)(at, op, values)


def _scatter(at: Conversion, op: Any, values: list[Any]) -> Any:
    combined = scatter.reduction(op)
    if combined == "mul" and _is_zero(values[-1][1]):  # both parts by real factors
        values = [*values[:-1], values[-1][0]]
    elif combined not in ("update", "add"):
        raise Unsupported("that combines complex numbers by anything but a sum")
    return _partwise(scatter.CONVERTERS["stablehlo.scatter"])(at, op, values)


def _constant(_at: Conversion, op: Any, _values: list[Any]) -> Pair:
    found = complex_type(op.results[0].type)
    text = _CONSTANT.search(op.operation.get_asm(large_elements_limit=None, enable_debug_info=False))
    if found is None or text is None:
        raise Unsupported("its values are stored apart from the module")
    (shape, dtype), stated = found, text[1]
    if stated.startswith('"0x'):
        numbers = np.frombuffer(bytes.fromhex(stated.strip('"')[2:]), dtype).reshape(-1, 2)
    else:
        pairs = _NUMBER.findall(stated)
        numbers = np.array([[_number(one, dtype) for one in pair] for pair in pairs], dtype).reshape(-1, 2)
    parts = (numbers[:, half] for half in (0, 1))
    return Pair(*(np.broadcast_to(part[0], shape) if len(part) == 1 else part.reshape(shape) for part in parts))


def _number(text: str, dtype: str) -> float:
    """A number as MLIR writes it: in hexadecimal digits, its bits."""
    if not text.strip().startswith("0x"):
        return float(text)
    digits = text.strip()[2:].zfill(2 * np.dtype(dtype).itemsize)
    return float(np.frombuffer(bytes.fromhex(digits)[::-1], dtype)[0])


class _Parts(ComplexArithmetic):
    """Writes complex arithmetic for one operator, on values of its result's shape."""

    def __init__(self, at: Conversion, op: Any):
        self.at = at
        kinds = [complex_type(value.type) for value in (*op.operands, *op.results)]
        self.shape = tuple(op.results[0].type.shape)
        self.dtype = next(kind[1] for kind in kinds if kind is not None)

    def write(self, operator: str, *operands: Any) -> Any:
        """An operator on real values, by StableHLO's name."""
        return self(operator, *operands)

    def __call__(self, name: str, *values: Any) -> Any:
        """An operator on real elements, by StableHLO's name, of values and numbers."""
        given = [
            np.broadcast_to(np.array(value, self.dtype), self.shape) if isinstance(value, int | float) else value
            for value in values
        ]
        if name == "multiply" and any(_is_zero(value) for value in given):
            return np.broadcast_to(np.zeros((), self.dtype), self.shape)
        if name in ("add", "subtract") and _is_zero(given[1]):
            return given[0]
        if name == "add" and _is_zero(given[0]):
            return given[1]
        return elementwise.computed(self.at, name, self.shape, self.dtype, given)

    def over(self, left: Pair, right: Pair) -> Pair:
        if _is_zero(right[1]):
            return Pair(self("divide", left[0], right[0]), self("divide", left[1], right[0]))
        above, square = self.multiply(left, Pair(right[0], self("negate", right[1]))), self.squared_magnitude(right)
        return Pair(self("divide", above[0], square), self("divide", above[1], square))

    def exponential(self, pair: Pair) -> Pair:
        size = self("exponential", pair[0])
        return Pair(*(self("multiply", size, self(name, pair[1])) for name in ("cosine", "sine")))

    def hyperbolic(self, value: Value) -> tuple[Any, Any]:
        """Hyperbolic cosine and sine."""
        rising, falling = self("exponential", value), self("exponential", self("negate", value))
        along, across = (self("multiply", self(name, rising, falling), 0.5) for name in ("add", "subtract"))
        return along, across

    def inverse_root(self, pair: Pair) -> Pair:
        one, zero = (np.broadcast_to(np.array(number, self.dtype), self.shape) for number in (1, 0))
        return self.over(Pair(one, zero), self.sqrt(pair))

    def sine(self, pair: Pair) -> Pair:
        along, across = self.hyperbolic(pair[1])
        parts = self("multiply", self("sine", pair[0]), along), self("multiply", self("cosine", pair[0]), across)
        return Pair(*parts)

    def cosine(self, pair: Pair) -> Pair:
        along, across = self.hyperbolic(pair[1])
        parts = self("multiply", self("cosine", pair[0]), along), self("multiply", self("sine", pair[0]), across)
        return Pair(parts[0], self("negate", parts[1]))

    def tangent(self, pair: Pair) -> Pair:
        """The hyperbolic one, by the tangents of both parts, so that no part of the quotient overflows."""
        along, across = self("tanh", pair[0]), self("tan", pair[1])
        turned = Pair(np.broadcast_to(np.ones((), self.dtype), self.shape), self("multiply", along, across))
        return self.over(Pair(along, across), turned)

    def sign(self, pair: Pair) -> Pair:
        """The number of size 1 in the same direction; 0 for 0."""
        size, zero = self.magnitude(pair), np.broadcast_to(np.zeros((), self.dtype), self.shape)
        safe = self("select", self("less", zero, size), size, 1.0)
        return Pair(self("divide", pair[0], safe), self("divide", pair[1], safe))


def _is_zero(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not value.any()


def _pair(value: Any) -> Pair:
    return value if isinstance(value, Pair) else Pair(value, np.zeros_like(value))


def _of_one(rule: Rule) -> Converter:
    return lambda at, op, values: rule(_Parts(at, op), values[0])


def _of_two(rule: Callable[[_Parts, Pair, Pair], Pair]) -> Converter:
    return lambda at, op, values: rule(_Parts(at, op), values[0], values[1])


def _power(write: _Parts, base: Pair, exponent: Pair) -> Pair:
    return write.exponential(write.multiply(exponent, write.log(base)))


def _compare(at: Conversion, op: Any, values: list[Any]) -> Any:
    compare, both = elementwise.CONVERTERS["stablehlo.compare"], elementwise.direction(op)
    shape = tuple(op.results[0].type.shape)
    parts = [at.settled(compare(at, op, [value[half] for value in values]), shape, "bool") for half in (0, 1)]
    return elementwise.computed(at, "and" if both == "EQ" else "or", shape, "bool", parts)


def _convert(at: Conversion, op: Any, values: list[Any]) -> Any:
    found = complex_type(op.results[0].type)
    if found is None:
        raise Unsupported(f"to {op.results[0].type}")
    parts = values[0] if isinstance(values[0], Pair) else [values[0]]
    shape, dtype = found
    real, imaginary = (*(elementwise.cast(at, part, dtype) for part in parts), np.zeros((), dtype))[:2]
    return Pair(real, np.broadcast_to(imaginary, shape) if _is_zero(imaginary) else imaginary)


def _dot_general(at: Conversion, op: Any, values: list[Any]) -> Pair:
    return _bilinear(at, op, values, dot_and_convolution.CONVERTERS["stablehlo.dot_general"])


def _convolution(at: Conversion, op: Any, values: list[Any]) -> Pair:
    return _bilinear(at, op, values, dot_and_convolution.CONVERTERS["stablehlo.convolution"])


def _bilinear(at: Conversion, op: Any, values: list[Any], product: Converter) -> Pair:
    write = _Parts(at, op)

    def of_real(left: Any, right: Any) -> Any:
        if _is_zero(left) or _is_zero(right):
            return np.broadcast_to(np.zeros((), write.dtype), write.shape)
        return at.settled(product(at, op, [left, right]), write.shape, write.dtype)

    return write.bilinear(of_real, *map(_pair, values))


KINDS: dict[str, Kind] = {"FFT": "forward", "IFFT": "inverse", "RFFT": "to_half", "IRFFT": "from_half"}
"""By StableHLO's name."""


def _transform(at: Conversion, op: Any, values: list[Any]) -> Any:
    name = str(stablehlo.FftTypeAttr(op.fft_type).value)
    lengths, rank = shapes.integers(op, "fft_length"), len(op.results[0].type.shape)
    if max(lengths) > MAX_LENGTH:
        raise Unsupported(f"of {max(lengths)} elements; up to {MAX_LENGTH} are")
    axes = list(range(rank - len(lengths), rank))
    value = values[0]
    if is_known(list(value if isinstance(value, Pair) else values), math.prod(op.results[0].type.shape)):
        return _known(name, value, axes, lengths)
    is_inverse = name in ("IFFT", "IRFFT")
    for step in fourier_steps(KINDS[name], axes, lengths, lambda _, length: 1 / length if is_inverse else 1.0):
        value = _transform_to_real(at, value, step) if step.gives_real else _transform_along(at, value, step)
    return value


def _known(kind: str, value: Any, axes: Sequence[int], lengths: Sequence[int]) -> Any:
    numbers = value[0] + 1j * value[1] if isinstance(value, Pair) else value
    function: Any = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}[kind]
    found = function(numbers.astype("complex128" if kind != "RFFT" else "float64"), lengths, axes)
    return found if kind == "IRFFT" else Pair(found.real.copy(), found.imag.copy())


def _transform_along(at: Conversion, value: Any, step: FourierStep) -> Pair:
    axis, cosine, sine, _ = step
    if not isinstance(value, Pair):
        return Pair(_matmul_along(at, value, axis, cosine), _matmul_along(at, value, axis, sine))
    real, imaginary = value
    return Pair(
        _sum(at, _matmul_along(at, real, axis, cosine), _matmul_along(at, imaginary, axis, -sine)),
        _sum(at, _matmul_along(at, real, axis, sine), _matmul_along(at, imaginary, axis, cosine)),
    )


def _transform_to_real(at: Conversion, pair: Pair, step: FourierStep) -> Value:
    real = _matmul_along(at, pair[0], step.axis, step.cosine)
    return _sum(at, real, _matmul_along(at, pair[1], step.axis, -step.sine))


def _matmul_along(at: Conversion, data: Value, axis: int, matrix: np.ndarray) -> "Value | None":
    """None where the data are zero."""
    if _is_zero(data):
        return None
    rank = len(extents(data))
    order = [a for a in range(rank) if a != axis] + [axis]
    moved = at.whole(at.permuted(data, order))
    found = at.emit(relax.op.matmul(moved, at.whole(matrix.astype(str(moved.ty.dtype)))))
    return at.permuted(found, [order.index(a) for a in range(rank)])


def _sum(at: Conversion, one: "Value | None", other: "Value | None") -> Value:
    if one is None or other is None:
        found = other if one is None else one
        assert found is not None
        return found
    return elementwise.computed(at, "add", extents(one), "", [one, other])


_PARTWISE: dict[str, Converter] = {
    **{name: convert for name, convert in shapes.CONVERTERS.items() if name != "stablehlo.iota"},
    **{
        f"stablehlo.{name}": elementwise.CONVERTERS[f"stablehlo.{name}"]
        for name in ("add", "negate", "select", "subtract")
    },
}

CONVERTERS: Mapping[str, Converter] = merge_tables(
    {name: _partwise(convert) for name, convert in _PARTWISE.items()},
    {
        "stablehlo.abs": lambda at, op, values: _Parts(at, op).magnitude(values[0]),
        "stablehlo.compare": _compare,
        "stablehlo.complex": lambda _at, _op, values: Pair(*values),
        "stablehlo.constant": _constant,
        "stablehlo.convert": _convert,
        "stablehlo.convolution": _convolution,
        "stablehlo.cosine": _of_one(_Parts.cosine),
        "stablehlo.divide": _of_two(_Parts.over),
        "stablehlo.dot_general": _dot_general,
        "stablehlo.exponential": _of_one(_Parts.exponential),
        "stablehlo.fft": _transform,
        "stablehlo.imag": lambda _at, _op, values: values[0][1],
        "stablehlo.log": _of_one(_Parts.log),
        "stablehlo.multiply": _of_two(_Parts.multiply),
        "stablehlo.optimization_barrier": lambda _at, _op, values: values,
        "stablehlo.power": _of_two(_power),
        "stablehlo.real": lambda _at, _op, values: values[0][0],
        "stablehlo.reduce": _reduce,
        "stablehlo.reduce_window": _reduce,
        "stablehlo.rsqrt": _of_one(_Parts.inverse_root),
        "stablehlo.scatter": _scatter,
        "stablehlo.sign": _of_one(_Parts.sign),
        "stablehlo.sine": _of_one(_Parts.sine),
        "stablehlo.sqrt": _of_one(_Parts.sqrt),
        "stablehlo.tanh": _of_one(_Parts.tangent),
    },
)
"""By the operator's full name, where it takes or gives complex numbers."""
