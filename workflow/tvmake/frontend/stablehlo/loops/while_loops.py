"""Convert loops: unroll short ones whose number of steps is known, and write functions for others."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend.mlir import ir

from tvmake.frontend.stablehlo.conversion import Conversion, Structure, Value, direction
from tvmake.frontend.stablehlo.loops.bodies import Counter, LoopBuffer, convert_loop, write_row
from tvmake.frontend.stablehlo.sizes.arithmetic import plain
from tvmake.frontend.stablehlo.source import Program

from tvm import relax  # isort: skip

MOST_STEPS = 512
"""Loops with more steps become functions."""

MOST_OPERATORS = 2000
"""Loops with more operators in all steps become functions."""


def _while(conversion: Conversion, op: Any, values: list[Value]) -> list[Value]:
    scope = conversion.scope
    condition, body = (region.blocks[0] for region in op.regions)
    counter = _counter(conversion, op, values)
    if counter is not None and not (
        isinstance(counter.count, int) and _is_short(counter.count, _count(conversion.program, op.regions[1]))
    ):
        return convert_loop(conversion, op, values, scope, counter)
    for _ in range(MOST_STEPS):
        [proceed] = conversion.block(condition, values, scope)
        if not isinstance(proceed, np.ndarray) or proceed.dtype == object:
            return convert_loop(conversion, op, values, scope, conversion.whole(proceed))
        if not proceed:
            return values
        values = conversion.block(body, values, scope)
    [proceed] = conversion.block(condition, values, scope)
    return convert_loop(conversion, op, values, scope, conversion.whole(proceed))


def _is_short(steps: int, count: int) -> bool:
    return steps <= MOST_STEPS and steps * count <= MOST_OPERATORS


def _count(program: Program, region: Any) -> int:
    """The number of operators in a region, and in the functions that it calls."""
    total = 0
    for block in region.blocks:
        for op in block.operations:
            total += 1
            if op.operation.name == "func.call":
                total += _count(program, program.functions[op.callee.value].regions[0])
            total += sum(_count(program, inner) for inner in op.regions)
    return total


@dataclass(frozen=True)
class _Region:
    """A region of a loop, in which operands are its arguments, its constants, or values of the enclosing block."""

    conversion: Conversion
    op: Any
    values: list[Value]
    block: Any

    def argument(self, value: Any) -> int | None:
        """The number of the argument that a value is; None for other values."""
        arguments = list(self.block.arguments)
        return arguments.index(value) if value in arguments else None

    def invariant(self, value: Any) -> "Value | None":
        """A loop-invariant value, as computed before the loop; None for other values."""
        number = self.argument(value)
        if number is not None:
            body = self.op.regions[1].blocks[0]
            returned = list(body.operations)[-1].operands[number]
            return self.values[number] if returned == body.arguments[number] else None
        owner = value.owner
        if not isinstance(owner, ir.Block) and owner.name == "stablehlo.constant":
            [constant] = self.conversion.constant(owner.opview)
            return constant
        return self.conversion.scope.get(value)


def _counter(conversion: Conversion, op: Any, values: list[Value]) -> Counter | None:
    """The counter of a loop of the form ``while i < limit: …; i += step``; None for other loops."""
    first, second = (_Region(conversion, op, values, region.blocks[0]) for region in op.regions)
    [proceed] = list(first.block.operations)[-1].operands
    compare = proceed.owner
    if isinstance(compare, ir.Block) or compare.name != "stablehlo.compare" or direction(compare.opview) != "LT":
        return None
    number, limit = first.argument(compare.operands[0]), first.invariant(compare.operands[1])
    if number is None or limit is None:
        return None
    returned = list(second.block.operations)[-1].operands[number]
    added = returned.owner
    if isinstance(added, ir.Block) or added.name != "stablehlo.add":
        return None
    operands = list(added.operands)
    steps = [second.invariant(value) for value in operands if second.argument(value) != number]
    start = values[number]
    if len(steps) != 1 or not isinstance(start, np.ndarray) or start.ndim or start.dtype.kind == "f":
        return None
    [step] = steps
    if not isinstance(step, np.ndarray) or step.dtype.kind not in "iu" or int(step) < 1:
        return None
    sizes, begin, stride = conversion.sizes, plain(start[()]), int(step)
    if sizes.has_counter(begin):
        return None
    if not isinstance(limit, np.ndarray) or sizes.has_counter(plain(limit[()])):
        return Counter(number, begin, stride, _steps(conversion, conversion.whole(limit), begin, stride))
    count = sizes.simplify(sizes.greatest(plain(limit[()]) - begin + stride - 1, 0) // stride)
    return Counter(number, begin, stride, count)


def _steps(conversion: Conversion, limit: Any, begin: Any, stride: int) -> Any:
    """The number of steps, at least 0, as an int64 scalar, if the limit depends on data."""
    emit = conversion.emit
    length = emit(relax.op.subtract(emit(relax.op.astype(limit, "int64")), conversion.number(begin)))
    length = emit(relax.op.maximum(length, relax.const(0, "int64")))
    if stride == 1:
        return length
    length = emit(relax.op.add(length, relax.const(stride - 1, "int64")))
    return emit(relax.op.floor_divide(length, relax.const(stride, "int64")))


def _update(conversion: Conversion, op: Any, values: list[Value]) -> list[Value] | None:
    return [write_row(conversion, values)] if isinstance(values[0], LoopBuffer) else None


STRUCTURES: dict[str, Structure] = {"stablehlo.dynamic_update_slice": _update, "stablehlo.while": _while}
