"""From the operators of a program to Relax: known values, emitted values, and calls between functions.

A value is a numpy array where the program fixes it (a constant, or what follows from constants alone and is small), else a
Relax variable. That unrolls loops: their counters are known. Complex values are pairs of such.
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
"""What follows from constants is computed here up to this size; larger weights stay constants and their use operators."""

MOST_STEPS = 4096
"""A loop of more steps is refused: it is written out, so that a longer one would be no network anyone wants to compile."""

SAME_VALUES = frozenset(
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
"""On an index's way from an input to a lookup; ``add`` wraps negative ones around."""


class Unsupported(Exception):
    """A form of an operator that has no counterpart; the text says which."""


class Conversion:
    """One program on its way to Relax."""

    def __init__(
        self, where: str, program: Program, converters: Mapping[str, Converter], of_complex: Mapping[str, Converter]
    ):
        self.where = where
        self.program = program
        self.converters = converters
        self.of_complex = of_complex
        """Those of operators that take or give complex numbers."""
        self.builder = relax.BlockBuilder()
        self.narrow: dict[Any, Any] = {}
        """What a broadcast variable was made from, of the same rank: operators with implicit broadcast take that."""
        self.origins: dict[Any, str] = {}
        """The input whose values an integer variable has, up to wrapping."""
        self.rows: dict[str, int] = {}
        """The least extent that an input's values index."""

    def function(self, name: str, values: Sequence[Value]) -> list[Value]:
        """The results of a function of the program, written out in place."""
        return self.block(self.program.functions[name].regions[0].blocks[0], values, {})

    def block(self, block: Any, values: Sequence[Value], outer: Mapping[Any, Value]) -> list[Value]:
        """What a block returns; ``outer`` holds the values around it, which regions may use."""
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
            convert = (self.of_complex if is_complex else self.converters).get(key)
            if convert is None:
                raise Unsupported("of complex numbers" if is_complex else "of real numbers")
            found = convert(self, op, operands)
            results = [
                self._settled(value, result.type)
                for value, result in zip(found if isinstance(found, list) else [found], op.results, strict=True)
            ]
        except Unsupported as error:
            problem = f"the operator {key} in a form that is not converted: {error}"
            raise InputError(self.where, problem, "write it in another way, or export it from PyTorch") from error
        origin = next((self.origins[v] for v in operands if isinstance(v, relax.Var) and v in self.origins), None)
        if origin and name in SAME_VALUES:
            self.origins.update({value: origin for value in results if isinstance(value, relax.Var)})
        return results

    def _loop(self, op: Any, values: list[Value], scope: Mapping[Any, Value]) -> list[Value]:
        condition, body = (region.blocks[0] for region in op.regions)
        for _ in range(MOST_STEPS):
            [proceed] = self.block(condition, values, scope)
            if not isinstance(proceed, np.ndarray):
                problem = "holds a loop (stablehlo.while) whose number of steps depends on data"
                raise InputError(self.where, problem, "give it a fixed number of steps, as jax.lax.scan has")
            if not proceed:
                return values
            values = self.block(body, values, scope)
        problem = f"holds a loop (stablehlo.while) of more than {MOST_STEPS} steps, each of which would be written out"
        raise InputError(self.where, problem, "export a shorter one")

    def _choice(self, op: Any, choice: Value, scope: Mapping[Any, Value]) -> list[Value]:
        """What the branch gives that a value chooses: the first one for true, the last one for numbers beyond."""
        branches = [region.blocks[0] for region in op.regions]
        if isinstance(choice, np.ndarray):
            number = int(not choice) if choice.dtype == bool else int(choice)
            return self.block(branches[number if 0 <= number < len(branches) else -1], [], scope)
        *results, found = [self.block(branch, [], scope) for branch in branches]
        for number, others in reversed(list(enumerate(results))):
            is_bool = str(choice.ty.dtype) == "bool"
            chosen = choice if is_bool else self.emit(relax.op.equal(choice, relax.const(number, str(choice.ty.dtype))))
            found = [self._chosen(chosen, one, other) for one, other in zip(others, found, strict=True)]
        return found

    def _chosen(self, chosen: Any, one: Any, other: Any) -> Any:
        if isinstance(one, Pair):
            return Pair(*(self._chosen(chosen, *parts) for parts in zip(one, other, strict=True)))
        return self.emit(relax.op.where(chosen, self.whole(one), self.whole(other)))

    def _settled(self, value: Any, kind: Any) -> Any:
        """A converter's result with exactly the shape and type that the program states."""
        if (stated := complex_type(kind)) is not None:
            return Pair(*(self.settled(part, *stated) for part in value))
        stated = tensor_type(kind)
        if stated is None:
            raise Unsupported(f"its result is {kind}")
        return self.settled(value, *stated)

    def settled(self, value: Any, shape: tuple[int, ...], dtype: str) -> Value:
        """A value with a shape and a type; raises Unsupported where it has another type."""
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
        """A variable for an expression, so that its shape and type are known."""
        return self.builder.emit(expression)

    def whole(self, value: Value) -> Any:
        """A value as an expression of its full shape."""
        return _constant(value) if isinstance(value, np.ndarray) else value

    def thin(self, value: Value) -> Any:
        """A value as an expression that may have extents of 1 where it repeats."""
        if isinstance(value, np.ndarray):
            once = tuple(
                slice(0, 1) if step == 0 or size == 1 else slice(None)
                for step, size in zip(value.strides, value.shape, strict=True)
            )
            return _constant(value[once])
        return self.narrow.get(value, value)

    def permuted(self, value: Value, axes: Sequence[int]) -> Value:
        """A value with its axes in another order."""
        if list(axes) == list(range(len(axes))):
            return value
        return (
            value.transpose(axes)
            if isinstance(value, np.ndarray)
            else self.emit(relax.op.permute_dims(value, list(axes)))
        )

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """A value in another shape."""
        if tuple(shape) == extents(value):
            return value
        return (
            value.reshape(shape) if isinstance(value, np.ndarray) else self.emit(relax.op.reshape(value, tuple(shape)))
        )


def _constant(value: np.ndarray) -> Any:
    # Without its type named, float64 would become float32.
    return relax.const(np.array(value), str(value.dtype))


def extents(value: Value) -> tuple[int, ...]:
    """The shape of a value, which is always fixed."""
    return value.shape if isinstance(value, np.ndarray) else tuple(int(extent) for extent in value.ty.shape.values)


def numbered(shape: Sequence[int], axis: int) -> np.ndarray:
    """0, 1 … along an axis of a shape, int64, to be spread over the others."""
    return np.arange(shape[axis], dtype="int64").reshape([-1 if a == axis else 1 for a in range(len(shape))])


def is_known(values: Sequence[Value], elements: int) -> bool:
    """Whether a result of so many elements is computed here."""
    return elements <= KNOWN_ELEMENTS and all(isinstance(value, np.ndarray) for value in values)


def integers(op: Any, name: str, default: Sequence[int] = ()) -> list[int]:
    """An attribute of integers, in any of the forms that the dialect has; pairs are given one after the other."""
    if name not in op.attributes:
        return list(default)
    return [int(item) for item in np.asarray(list(op.attributes[name])).flatten()]
