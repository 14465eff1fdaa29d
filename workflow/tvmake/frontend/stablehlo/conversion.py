"""Convert a program's operators to Relax: known values, emitted values, and calls between functions.

A value is a numpy array if it is known (a constant, or a small result of constants), else a Relax variable. Loops are unrolled, because
their counters are known. Complex values are pairs of these.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tvmake.errors import InputError
from tvmake.frontend.lowering.complex_arithmetic import Pair
from tvmake.frontend.stablehlo.source import AS_FLOAT32, Program, complex_type, half, tensor_type

from tvm import relax  # isort: skip

Value: TypeAlias = "np.ndarray | relax.Var"
Converter: TypeAlias = "Callable[[Conversion, Any, list[Any]], Any]"

KNOWN_ELEMENTS = 4096
"""Largest result of constants that is computed during the import."""

MOST_STEPS = 4096
"""Loops with more steps are refused: they are unrolled, and would take too long to compile."""

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


class Unsupported(Exception):
    """A form of an operator that has no counterpart in Relax; the text describes it."""


class Conversion:
    """The conversion of one program to Relax."""

    def __init__(
        self,
        where: str,
        program: Program,
        converters: Mapping[str, Converter],
        complex_converters: Mapping[str, Converter],
    ):
        self.where = where
        self.program = program
        self.converters = converters
        self.complex_converters = complex_converters
        """Converters of operators with complex operands or results."""
        self.builder = relax.BlockBuilder()
        self.narrow: dict[Any, Any] = {}
        """For a broadcast variable, its source of the same rank: operators that broadcast implicitly use the source."""
        self.origins: dict[Any, str] = {}
        """For an integer variable, the input whose values it has, up to wrapping."""
        self.rows: dict[str, int] = {}
        """For an input, the smallest dimension that its values index."""

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
            for result, value in zip(op.results, self._results(op, name, operands, scope), strict=True):
                scope[result] = value
        raise Unsupported("a block returns nothing")

    def _results(self, op: Any, name: str, operands: list[Value], scope: Mapping[Any, Value]) -> list[Value]:
        if name == "func.call":
            return self.function(op.callee.value, operands)
        if name == "stablehlo.while":
            return self._loop(op, operands, scope)
        if name in ("stablehlo.case", "stablehlo.if"):
            return self._choice(op, operands[0], scope)
        if name == "stablehlo.composite" and op.attributes["name"].value not in self.converters:
            return self.function(op.decomposition.value, operands)
        if (width := next(filter(None, (half(result.type) for result in op.results)), None)) is not None:
            raise InputError(self.where, f"computes in half precision ({width}: {name})", AS_FLOAT32)
        key = op.attributes["name"].value if name == "stablehlo.composite" else name
        is_complex = any(isinstance(value, Pair) for value in operands) or any(
            complex_type(result.type) for result in op.results
        )
        try:
            convert = (self.complex_converters if is_complex else self.converters).get(key)
            if convert is None:
                raise Unsupported("of complex numbers" if is_complex else "of real numbers")
            converted = convert(self, op, operands)
            results = [
                self._with_result_type(value, result.type)
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

    def _loop(self, op: Any, values: list[Value], scope: Mapping[Any, Value]) -> list[Value]:
        condition, body = (region.blocks[0] for region in op.regions)
        for _ in range(MOST_STEPS):
            [proceed] = self.block(condition, values, scope)
            if not isinstance(proceed, np.ndarray):
                problem = "has a loop (stablehlo.while) whose number of steps depends on data"
                raise InputError(self.where, problem, "give it a fixed number of steps, as jax.lax.scan has")
            if not proceed:
                return values
            values = self.block(body, values, scope)
        problem = f"has a loop (stablehlo.while) of more than {MOST_STEPS} steps, which would be unrolled"
        raise InputError(self.where, problem, "export a shorter one")

    def _choice(self, op: Any, choice: Value, scope: Mapping[Any, Value]) -> list[Value]:
        """The results of the branch that a value selects: the first for true, the last for indices out of range."""
        branches = [region.blocks[0] for region in op.regions]
        if isinstance(choice, np.ndarray):
            number = int(not choice) if choice.dtype == bool else int(choice)
            return self.block(branches[number if 0 <= number < len(branches) else -1], [], scope)
        *alternatives, result = [self.block(branch, [], scope) for branch in branches]
        for number, alternative in reversed(list(enumerate(alternatives))):
            is_bool = str(choice.ty.dtype) == "bool"
            condition = (
                choice if is_bool else self.emit(relax.op.equal(choice, relax.const(number, str(choice.ty.dtype))))
            )
            result = [self._select(condition, *pair) for pair in zip(alternative, result, strict=True)]
        return result

    def _select(self, condition: Any, left: Any, right: Any) -> Any:
        if isinstance(left, Pair):
            return Pair(*(self._select(condition, *parts) for parts in zip(left, right, strict=True)))
        return self.emit(relax.op.where(condition, self.whole(left), self.whole(right)))

    def _with_result_type(self, value: Any, kind: Any) -> Any:
        """A converter's result with the shape and dtype that the program declares."""
        if (declared := complex_type(kind)) is not None:
            return Pair(*(self.with_type(part, *declared) for part in value))
        declared = tensor_type(kind)
        if declared is None:
            raise Unsupported(f"its result is {kind}")
        return self.with_type(value, *declared)

    def with_type(self, value: Any, shape: tuple[int, ...], dtype: str) -> Value:
        """Broadcast a value to a shape.

        Raises:
            Unsupported: it has another dtype.
        """
        if isinstance(value, np.ndarray):
            assert value.shape == shape, f"{value.shape} instead of {shape}"
            return value.astype(dtype, copy=False)
        var = self.builder.emit(value) if not isinstance(value, relax.Var) else value
        if extents(var) != shape:
            wide = self.builder.emit(relax.op.broadcast_to(var, shape))
            self.narrow[wide] = var
            var = wide
        if str(var.ty.dtype) != dtype:
            raise Unsupported(f"TVM computes it as {var.ty.dtype}, not {dtype}")
        return var

    def emit(self, expression: Any) -> Any:
        """Bind an expression to a variable, so that its shape and dtype are known."""
        return self.builder.emit(expression)

    def whole(self, value: Value) -> Any:
        """A value as an expression of its full shape."""
        return _constant(value) if isinstance(value, np.ndarray) else value

    def thin(self, value: Value) -> Any:
        """A value as an expression that may have size 1 along axes where it repeats."""
        if isinstance(value, np.ndarray):
            once = tuple(
                slice(0, 1) if step == 0 or size == 1 else slice(None)
                for step, size in zip(value.strides, value.shape, strict=True)
            )
            return _constant(value[once])
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

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Reshape a value."""
        if tuple(shape) == extents(value):
            return value
        return (
            value.reshape(shape) if isinstance(value, np.ndarray) else self.emit(relax.op.reshape(value, tuple(shape)))
        )


def _constant(value: np.ndarray) -> Any:
    # Without a dtype, float64 would become float32.
    return relax.const(np.array(value), str(value.dtype))


def extents(value: Value) -> tuple[int, ...]:
    """The shape of a value, which is always fixed."""
    return value.shape if isinstance(value, np.ndarray) else tuple(int(extent) for extent in value.ty.shape.values)


def axis_indices(shape: Sequence[int], axis: int) -> np.ndarray:
    """The indices 0, 1 … along an axis, int64, with size 1 along other axes."""
    return np.arange(shape[axis], dtype="int64").reshape([-1 if a == axis else 1 for a in range(len(shape))])


def is_known(values: Sequence[Value], elements: int) -> bool:
    """Whether a result of this number of elements is computed during the import."""
    return elements <= KNOWN_ELEMENTS and all(isinstance(value, np.ndarray) for value in values)


def integers(op: Any, name: str, default: Sequence[int] = ()) -> list[int]:
    """An attribute of integers, in any form of the dialect; pairs are flattened."""
    if name not in op.attributes:
        return list(default)
    return [int(item) for item in np.asarray(list(op.attributes[name])).flatten()]
