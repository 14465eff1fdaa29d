"""Convert a program's operators to Relax: known values, emitted values, and calls between functions.

A value is a numpy array if it is known (a constant, or a small result of constants), or follows from dynamic dimensions; else it is a
Relax variable. Complex values are pairs of these.
"""

import hashlib
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tvm
from jax.extend.mlir.dialects import stablehlo

from tvmake.errors import InputError
from tvmake.frontend.equal_sizes import EqualSizesBuilder
from tvmake.frontend.lowering.complex_arithmetic import Pair
from tvmake.frontend.relax_fixes import LIFT_FROM_BYTES
from tvmake.frontend.stablehlo.loop_buffers import BufferRead, LoopBuffer
from tvmake.frontend.stablehlo.sizes.arithmetic import (
    FLOOR_OPERATORS,
    SizeArithmetic,
    as_sizes,
    is_floor_operator,
    is_symbolic,
    plain,
)
from tvmake.frontend.stablehlo.sizes.tensors import size_tensor
from tvmake.frontend.stablehlo.source import AS_FLOAT32, Program, complex_type, half, operator, tensor_type

from tvm import relax, tirx  # isort: skip

Value: TypeAlias = "np.ndarray | relax.Var"
Converter: TypeAlias = "Callable[[Conversion, Any, list[Any]], Any]"

KNOWN_ELEMENTS = 4096
"""Largest result of constants that is computed during the import."""

INDEX_FORWARDING = frozenset(
    f"stablehlo.{name}"
    for name in (
        "broadcast_in_dim",
        "reshape",
        "transpose",
        "convert",
        "select",
        "add",
        "clamp",
        "slice",
        "concatenate",
    )
)
"""Operators between an input of indices and a lookup; ``add`` wraps negative indices."""


TAKES_SIZES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "broadcast_in_dim",
        "concatenate",
        "dynamic_broadcast_in_dim",
        "dynamic_conv",
        "dynamic_gather",
        "dynamic_iota",
        "dynamic_pad",
        "dynamic_reshape",
        "dynamic_slice",
        "dynamic_update_slice",
        "real_dynamic_slice",
        "reshape",
        "slice",
        "transpose",
    )
) | {"custom_call @stablehlo.dynamic_reduce_window"}
"""Operators that take integers that follow from dynamic dimensions; others get them as tensors."""

Structure: TypeAlias = "Callable[[Conversion, Any, list[Any]], list[Any] | None]"
"""Converts an operator with regions; None leaves it to its converter."""


class Unsupported(Exception):
    """A form of an operator that has no counterpart in Relax; the text describes it."""


class Conversion:
    """The conversion of one program, or of a loop's body, to Relax."""

    def __init__(
        self,
        where: str,
        program: Program,
        converters: Mapping[str, Converter],
        complex_converters: Mapping[str, Converter],
        structures: Mapping[str, Structure],
        elementwise: Collection[str] = (),
    ):
        self.where = where
        self.program = program
        self.converters = converters
        self.complex_converters = complex_converters
        """Converters of operators with complex operands or results."""
        self.structures = structures
        """Converters of operators with regions that are loops or branches."""
        self.elementwise = elementwise
        """Operators whose results have the shape of their operands."""
        self.builder = EqualSizesBuilder()
        self.sizes = SizeArithmetic()
        self.scope: Mapping[Any, Value] = {}
        """The values of the block that is being converted."""
        self.counters: dict[Any, Any] = {}
        """For a counter of iterations, an int64 scalar with its value."""
        self.taken: Callable[[], Any] | None = None
        """In a branch, emits a boolean scalar that is true if it is taken; None outside."""
        self.hoisted: dict[Any, Any] | None = None
        """In a loop's body, parameters with the values of large constants, by :func:`_digest`; None in ``main``."""
        self.pending: dict[Any, np.ndarray] = {}
        """Large constants of a loop's body that are not parameters."""
        self._floor_operators: dict[str, str | None] = {}
        self.narrow: dict[Any, Any] = {}
        """For a broadcast variable, its source of the same rank: operators that broadcast implicitly use the source."""
        self.origins: dict[Any, str] = {}
        """For an integer variable, the input whose values it has, up to wrapping."""
        self.row_reads: dict[Any, tuple[Any, Any]] = {}
        """For a row [1, …] of an array, read at an index that follows from a counter, the array and the index."""
        self.iota_axes: dict[Any, int] = {}
        """For a variable with the indices along an axis, the axis."""
        self.rows: dict[str, int] = {}
        """For an input, the smallest dimension that its values index."""
        self.slow: list[str] = []
        """What is slow, with the remedy; shared with the bodies of loops."""

    def child(self) -> "Conversion":
        """The conversion of a loop's body, a function of its own."""
        child = Conversion(
            self.where, self.program, self.converters, self.complex_converters, self.structures, self.elementwise
        )
        child.hoisted = {}
        child.slow = self.slow
        return child

    def function(self, name: str, values: Sequence[Value]) -> list[Value]:
        """Inline a function of the program; returns its results."""
        return self.block(self.program.functions[name].regions[0].blocks[0], values, {})

    def block(self, block: Any, values: Sequence[Value], outer: Mapping[Any, Value]) -> list[Value]:
        """Convert a block; returns its results. ``outer`` has the values of the enclosing blocks, which regions may use."""
        scope = dict(outer)
        scope.update(zip(block.arguments, values, strict=True))
        for op in block.operations:
            operands = [scope[operand] for operand in op.operands]
            name = op.operation.name
            if name in ("func.return", "stablehlo.return"):
                return operands
            self.scope = scope
            for result, value in zip(op.results, self._results(op, name, operands), strict=True):
                scope[result] = value
        raise Unsupported("a block returns nothing")

    def _results(self, op: Any, name: str, operands: list[Value]) -> list[Value]:
        if name == "func.call":
            quotient = self._floor_quotient(op.callee.value, operands)
            return self.function(op.callee.value, operands) if quotient is None else [quotient]
        structure = self.structures.get(operator(op))
        if structure is not None and (written := structure(self, op, operands)) is not None:
            return written
        if (buffer := next((value for value in operands if isinstance(value, LoopBuffer)), None)) is not None:
            raise BufferRead(buffer)
        if name == "stablehlo.composite" and op.attributes["name"].value not in self.converters:
            return self.function(op.decomposition.value, operands)
        if (width := next(filter(None, (half(result.type) for result in op.results)), None)) is not None:
            raise InputError(self.where, f"computes in half precision ({width}: {name})", AS_FLOAT32)
        key = op.attributes["name"].value if name == "stablehlo.composite" else operator(op)
        if any(map(is_symbolic, operands)):
            if (sizes := self._compute_sizes(op, name, operands)) is not None:
                return [sizes]
            if key not in TAKES_SIZES:
                operands = [self.whole(value) if is_symbolic(value) else value for value in operands]
        is_complex = any(isinstance(value, Pair) for value in operands) or any(
            complex_type(result.type) for result in op.results
        )
        try:
            convert = (self.complex_converters if is_complex else self.converters).get(key)
            if convert is None:
                raise Unsupported("of complex numbers" if is_complex else "of real numbers")
            converted = convert(self, op, operands)
            parts = [value[0] if isinstance(value, Pair) else value for value in operands]
            shaped = parts if key in self.elementwise else []
            results = [
                self._with_result_type(value, result.type, shaped)
                for value, result in zip(
                    converted if isinstance(converted, list) else [converted], op.results, strict=True
                )
            ]
        except Unsupported as error:
            problem = f"the operator {key} in a form that is not converted: {error}"
            raise InputError(self.where, problem, "write it in another way, or export it from PyTorch") from error
        origin = next((self.origins[v] for v in operands if isinstance(v, relax.Var) and v in self.origins), None)
        if origin and name in INDEX_FORWARDING:
            self.origins.update({value: origin for value in results if isinstance(value, relax.Var)})
        return results

    def _compute_sizes(self, op: Any, name: str, operands: list[Value]) -> "Value | None":
        """The result of an element-wise operator on integers that follow from dynamic dimensions; None for other operators."""
        is_elementwise = name in self.elementwise and len(op.results) == 1
        kind = tensor_type(op.results[0].type) if is_elementwise else None
        if kind is None or not is_known(operands, math.prod(np.broadcast_shapes(*map(np.shape, operands)))):
            return None
        base = name.partition(".")[2]
        base = f"compare {direction(op)}" if base == "compare" else base
        return self.sizes.evaluate(base, operands, kind[1])

    def _floor_quotient(self, name: str, operands: list[Value]) -> "Value | None":
        """The result of jax' private functions for integer division of sizes; None for other functions."""
        base = re.sub(r"_\d+$", "", name)
        if base not in FLOOR_OPERATORS or not any(map(is_symbolic, operands)) or len(operands) < 2:
            return None
        if name not in self._floor_operators:
            divided = FLOOR_OPERATORS[base]

            def run(first: int, second: int) -> int:
                rest = [np.asarray(1, "int32") for _ in operands[2:]]
                [result] = self.function(name, [*rest, np.asarray(first, "int32"), np.asarray(second, "int32")])
                return int(result)

            self._floor_operators[name] = divided if is_floor_operator(divided, run) else None
        operator_name, pair = self._floor_operators[name], operands[-2:]
        if operator_name is None or not all(isinstance(value, np.ndarray) and not value.ndim for value in pair):
            return None
        divisor = pair[1][()]
        if not self.sizes.is_at_most(1, plain(divisor)):
            return None
        return self.sizes.evaluate(operator_name, pair, getattr(pair[0], "declared", "int32"))

    def select(self, condition: Any, left: Any, right: Any) -> Any:
        """One of two values, by a boolean scalar."""
        if isinstance(left, Pair):
            return Pair(*(self.select(condition, *parts) for parts in zip(left, right, strict=True)))
        return self.emit(relax.op.where(condition, self.whole(left), self.whole(right)))

    def _with_result_type(self, value: Any, kind: Any, shaped: Sequence[Value]) -> Any:
        """A converter's result with the shape and dtype that the program declares; dynamic dimensions are those of other values."""
        if (declared := complex_type(kind)) is not None:
            return Pair(*(self.with_type(part, *declared) for part in value))
        declared = tensor_type(kind)
        if declared is None:
            raise Unsupported(f"its result is {kind}")
        shape, dtype = declared
        if None in shape and (same := next((v for v in shaped if len(extents(v)) == len(shape)), None)) is not None:
            shape = extents(same)
        return self.with_type(value, shape, dtype)

    def with_type(self, value: Any, shape: Sequence[Any], dtype: str) -> Value:
        """Broadcast a value to a shape, of which None keeps the value's dimension.

        Raises:
            Unsupported: it has another dtype.
        """
        if isinstance(value, np.ndarray):
            if is_symbolic(value):
                return as_sizes(value, dtype)
            if value.dtype == object:
                value = as_sizes(value, dtype)
            assert all(size in (None, extent) for size, extent in zip(shape, value.shape, strict=True)), (
                f"{value.shape} instead of {shape}"
            )
            return value.astype(dtype, copy=False)
        var = self.builder.emit(value) if not isinstance(value, relax.Var) else value
        own = extents(var)
        target = tuple(extent if size is None else size for size, extent in zip(shape, own, strict=True))
        if not self.sizes.have_same_shape(own, target):
            var = self.broadcast(var, target)
        if str(var.ty.dtype) != dtype:
            raise Unsupported(f"TVM computes it as {var.ty.dtype}, not {dtype}")
        return var

    def broadcast(self, value: Any, shape: Sequence[Any]) -> Any:
        """A variable broadcast to a shape; operators that broadcast implicitly use the variable itself."""
        wide = self.builder.emit(relax.op.broadcast_to(value, tuple(shape)))
        self.narrow[wide] = value
        return wide

    def emit(self, expression: Any) -> Any:
        """Bind an expression to a variable, so that its shape and dtype are known."""
        return self.builder.emit(expression)

    def whole(self, value: Value) -> Any:
        """A value as an expression of its full shape."""
        if is_symbolic(value):
            return size_tensor(self.builder, value, self.counters)
        return self._constant(value) if isinstance(value, np.ndarray) else value

    def constant(self, op: Any) -> list[Value]:
        """The value of a constant operator."""
        return self._results(op, op.operation.name, [])

    def number(self, value: Any) -> Any:
        """An int64 scalar with the value of a size, or of a scalar of any integer type."""
        if isinstance(value, relax.Var) and not tvm.ir.is_prim_expr(value):
            return value if str(value.ty.dtype) == "int64" else self.emit(relax.op.astype(value, "int64"))
        array = np.empty((), object)
        array[()] = value
        return self.whole(as_sizes(array, "int64"))

    def _constant(self, value: np.ndarray) -> Any:
        if self.hoisted is not None and value.nbytes >= LIFT_FROM_BYTES:
            digest = _digest(value)
            if digest in self.hoisted:
                return self.hoisted[digest]
            self.pending[digest] = value
        # Without a dtype, float64 would become float32.
        return relax.const(np.array(value), str(value.dtype))

    def indices(self, extent: Any, dtype: str) -> Any:
        """The integers from 0 up to a dimension."""
        if isinstance(extent, int):
            return relax.const(np.arange(extent, dtype=dtype))
        return self.emit(relax.op.arange(tirx.IntImm("int64", 0), extent, tirx.IntImm("int64", 1), dtype))

    def thin(self, value: Value) -> Any:
        """A value as an expression that may have size 1 along axes where it repeats."""
        if is_symbolic(value):
            return self.whole(value)
        if isinstance(value, np.ndarray):
            once = tuple(
                slice(0, 1) if step == 0 or size == 1 else slice(None)
                for step, size in zip(value.strides, value.shape, strict=True)
            )
            return self._constant(value[once])
        return self.narrow.get(value, value)

    def transpose(self, value: Value, axes: Sequence[int]) -> Value:
        """Transpose a value."""
        if list(axes) == list(range(len(axes))):
            return value
        return (
            value.transpose(axes)
            if isinstance(value, np.ndarray)
            else self.emit(relax.op.permute_dims(value, list(axes)))
        )

    def reshape(self, value: Value, shape: Sequence[Any]) -> Value:
        """Reshape a value."""
        if self.sizes.have_same_shape(shape, extents(value)):
            return value
        if isinstance(value, np.ndarray) and all(isinstance(size, int) for size in shape):
            return value.reshape(shape)
        return self.emit(relax.op.reshape(self.whole(value), tuple(shape)))


def _digest(value: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    return str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).digest()


def extents(value: Value) -> tuple[Any, ...]:
    """The shape of a value: ints, and expressions for dynamic dimensions."""
    return value.shape if isinstance(value, np.ndarray) else tuple(map(plain, value.ty.shape.values))


def direction(op: Any) -> str:
    """The direction of a comparison, such as ``LT``."""
    return str(stablehlo.ComparisonDirectionAttr(op.comparison_direction).value)


def is_iota(conversion: Conversion, value: Value, axis: int) -> bool:
    """Whether a value has the indices along an axis."""
    if isinstance(value, np.ndarray):
        return np.array_equal(value, np.broadcast_to(axis_indices(value.shape, axis), value.shape))
    return conversion.iota_axes.get(value) == axis


def axis_indices(shape: Sequence[int], axis: int) -> np.ndarray:
    """The indices 0, 1 … along an axis, int64, with size 1 along other axes."""
    return np.arange(shape[axis], dtype="int64").reshape([-1 if a == axis else 1 for a in range(len(shape))])


def is_known(values: Sequence[Value], elements: int) -> bool:
    """Whether a result of this number of elements is computed during the import."""
    return all(isinstance(value, np.ndarray) for value in values) and elements <= KNOWN_ELEMENTS


def known_sizes(value: Value) -> list[Any]:
    """The elements of a vector of sizes.

    Raises:
        Unsupported: they depend on data.
    """
    if not isinstance(value, np.ndarray):
        raise Unsupported("with a shape that depends on data")
    return [plain(element) for element in value.reshape(-1)]


def integers(op: Any, name: str, default: Sequence[int] = ()) -> list[int]:
    """An attribute of integers, in any form of the dialect; pairs are flattened."""
    if name not in op.attributes:
        return list(default)
    return [int(item) for item in np.asarray(list(op.attributes[name])).flatten()]
