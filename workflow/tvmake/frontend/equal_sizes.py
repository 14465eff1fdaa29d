"""Dynamic dimensions that an operator needs to be equal: taken for equal while a network is imported, and noted to be checked.

TVM has no shape for a concatenation of ``height // 8 * 2`` and ``height // 4`` rows, and reads beyond a buffer where the sizes that
a reshape or a matmul takes for equal are not. ``tvmake.frontend.size_conditions`` makes checks of what is noted here.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm

from tvmake.ir.expressions import is_call, operator_name, variables
from tvmake.ir.size_expressions import divisors

from tvm import relax, tirx  # isort: skip

BROADCASTING = {
    "add", "subtract", "multiply", "divide", "floor_divide", "power", "mod", "floor_mod", "maximum", "minimum", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or",
    "bitwise_xor", "left_shift", "right_shift", "where",
}  # fmt: skip
"""Relax's operators whose operands are broadcast to each other."""

Position = tuple[int, int]
"""An operand's index, and the index of one of its axes."""


@dataclass(frozen=True)
class EqualSizes:
    """Two sizes that an operator needs to be equal."""

    size: Any
    wanted: Any
    operator: str
    """As messages name it."""


class EqualSizesBuilder(relax.BlockBuilder):
    """A block builder that takes operands' sizes for equal where an operator needs them to be."""

    operator = ""
    """The source's operator that is being imported; the name of Relax's counts where there is none."""

    dimensions: Collection[str] | None = None
    """Names of the inputs' dimensions; None where all sizes follow from these."""

    @property
    def equal_sizes(self) -> list[EqualSizes]:
        """What was taken for equal so far."""
        return self.__dict__.setdefault("_equal_sizes", [])

    def emit(self, expr: Any, name_hint: str = "") -> Any:
        """Bind a variable to an expression."""
        return super().emit(self._equalize(expr), name_hint)

    def normalize(self, expr: Any) -> Any:
        """An expression with its type."""
        return super().normalize(self._equalize(expr))

    def _equalize(self, expression: Any) -> Any:
        """The expression, its operands cast to equal sizes; what has fixed shapes alone stays unchanged."""
        if not isinstance(expression, relax.Call) or not any(map(_is_dynamic, variables(expression))):
            return expression
        call = with_operands(expression, [self._operand(operand) for operand in operands_of(expression)])
        self._note_shape(call)
        operands = operands_of(call)
        shapes = [shape for operand in operands if (shape := _shape(operand)) is not None]
        if len(shapes) < len(operands):
            return call
        wanted = [list(shape) for shape in shapes]
        for positions in filter(None, _equal_positions(call, wanted)):
            self._unify(positions, wanted, call)
        return with_operands(call, list(map(self._cast, operands, shapes, wanted)))

    def _operand(self, operand: Any) -> Any:
        """An operand as a variable, which is the same one for all that use it: TVM's builder remembers what it has bound."""
        if not isinstance(operand, relax.Call):
            return operand
        return super().normalize(relax.Tuple([self._equalize(operand)])).fields[0]

    def _unify(self, positions: Sequence[Position], shapes: list[list[Any]], call: Any) -> None:
        """Give axes the simplest of their sizes, unless two of them are different numbers, which TVM reports."""
        sizes = [shapes[operand][axis] for operand, axis in positions]
        if len({int(size) for size in sizes if isinstance(size, tirx.IntImm)}) > 1:
            return
        wanted = max(sizes, key=_coarseness)
        for (operand, axis), size in zip(positions, sizes, strict=True):
            if not _is_equal(size, wanted):
                self._note(size, wanted, call)
                shapes[operand][axis] = wanted

    def _cast(self, operand: Any, shape: Sequence[Any], wanted: Sequence[Any]) -> Any:
        if all(map(_is_same, shape, wanted)):
            return operand
        return self.match_cast(operand, relax.TensorType(wanted, operand.ty.dtype))

    def _note_shape(self, call: Any) -> None:
        """Note what a reshape or a broadcast needs of the shape that it is given, and a sampler of its image."""
        if is_call(call, "image.grid_sample"):
            self._note_reflection(call)
        if not is_call(call, "reshape", "broadcast_to"):
            return
        shape, wanted = _shape(call.args[0]), call.args[1]
        if shape is None or not isinstance(wanted, relax.ShapeExpr):
            return
        if is_call(call, "reshape"):
            pairs = [(_count(shape), _count(wanted.values))]
        else:
            pairs = [
                pair for pair in zip(reversed(shape), reversed(wanted.values), strict=False) if not _is_one(pair[0])
            ]
        for size, target in pairs:
            if not _is_equal(size, target):
                self._note(size, target, call)

    def _note_reflection(self, call: Any) -> None:
        """Note that TVM's ``grid_sample`` divides by the distance of the outermost pixels, where it reflects positions at them."""
        shape = _shape(call.args[0])
        if shape is None or call.attrs.padding_mode != "reflection" or not call.attrs.align_corners:
            return
        two = tirx.IntImm("int64", 2)
        for size in shape[2:]:
            if not isinstance(size, tirx.IntImm):
                self._note(tirx.min(size, two), two, call)

    def _note(self, size: Any, wanted: Any, call: Any) -> None:
        self.require_equal(EqualSizes(size, wanted, self.operator or operator_name(call)))

    def require_equal(self, sizes: EqualSizes) -> None:
        """Note sizes to be checked when the network begins to run, or check them where one of them is computed by then."""
        pair = [
            size if isinstance(size, tvm.ir.Expr) else tirx.IntImm("int64", size) for size in (sizes.size, sizes.wanted)
        ]
        names = {str(variable.name) for size in pair for variable in tirx.analysis.undefined_vars(size)}
        if self.dimensions is None or names <= set(self.dimensions):
            self.equal_sizes.append(sizes)
            return
        # A sum, because a cast to a variable is not possible. Repair: `recursion-at-casts`.
        shape = self.emit(relax.ShapeExpr([pair[0] + pair[1]]))
        self.match_cast(shape, relax.ShapeType([pair[1] + pair[1]]))


def operands_of(call: Any) -> list[Any]:
    """The operands of a call, those in a tuple included."""
    first = call.args[0] if call.args else None
    return [*first.fields, *call.args[1:]] if isinstance(first, relax.Tuple) else list(call.args)


def with_operands(call: Any, operands: Sequence[Any]) -> Any:
    """A call with other operands, in the order of :func:`operands_of`."""
    if all(before.same_as(after) for before, after in zip(operands_of(call), operands, strict=True)):
        return call
    first, rest = call.args[0], list(operands)
    if isinstance(first, relax.Tuple):
        count = len(first.fields)
        rest = [relax.Tuple(rest[:count]), *rest[count:]]
    return relax.Call(call.op, rest, call.attrs, call.ty_args)


def _equal_positions(call: Any, shapes: Sequence[Sequence[Any]]) -> Iterator[list[Position]]:
    """Axes that need one size, those of size 1 that are broadcast left out."""
    match operator_name(call):
        case "concat" if len({len(shape) for shape in shapes}) == 1:
            rank = len(shapes[0])
            joined = (0 if call.attrs.axis is None else int(call.attrs.axis)) % rank
            yield from ([(operand, axis) for operand in range(len(shapes))] for axis in range(rank) if axis != joined)
        case "matmul" if min(map(len, shapes)) > 1:
            yield [(0, len(shapes[0]) - 1), (1, len(shapes[1]) - 2)]
            yield from _broadcast_positions([shape[:-2] for shape in shapes])
        case name if name in BROADCASTING:
            yield from _broadcast_positions(shapes)


def _broadcast_positions(shapes: Sequence[Sequence[Any]]) -> Iterator[list[Position]]:
    for place in range(1, max(map(len, shapes)) + 1):
        long = [(operand, len(shape) - place) for operand, shape in enumerate(shapes) if len(shape) >= place]
        yield [(operand, axis) for operand, axis in long if not _is_one(shapes[operand][axis])]


def _shape(value: Any) -> list[Any] | None:
    kind: Any = getattr(value, "ty", None)
    is_known = isinstance(kind, relax.TensorType) and isinstance(kind.shape, relax.ShapeExpr)
    return list(kind.shape.values) if is_known else None


def _is_dynamic(value: Any) -> bool:
    return any(not isinstance(size, tirx.IntImm) for size in _shape(value) or ())


def _is_one(size: Any) -> bool:
    return isinstance(size, tirx.IntImm) and int(size) == 1


def _is_same(size: Any, other: Any) -> bool:
    return bool(size is other or size.same_as(other))


def _is_equal(size: Any, other: Any) -> bool:
    return _is_same(size, other) or tvm.sym.Analyzer().can_prove_equal(size, other)


def _count(shape: Sequence[Any]) -> Any:
    count = tirx.IntImm("int64", 1)
    for size in shape:
        count = count * size
    return count


def _coarseness(size: Any) -> tuple[bool, int, bool]:
    """How simple a size makes those that follow: a number, then the largest divisor, then what is not a dimension itself.

    A cast to a dimension itself is not possible. Repair: `recursion-at-casts`.
    """
    return isinstance(size, tirx.IntImm), prod(divisors(size)), not isinstance(size, tirx.Var)
