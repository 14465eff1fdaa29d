"""Assume that dynamic dimensions are equal where an operator needs it, and record the assumption.

TVM has no shape for a concatenation of ``height // 8 * 2`` and ``height // 4`` rows. A reshape or a matmul of sizes that differ reads
beyond a buffer. ``tvmake.frontend.size_conditions`` turns the recorded assumptions into checks.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm

from tvmake.ir.expressions import is_call, operator_name, variables
from tvmake.ir.size_expressions import divisors, size_text

from tvm import relax, te, tirx, topi  # isort: skip

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
    """The operator's name in messages."""


class EqualSizesBuilder(relax.BlockBuilder):
    """A block builder that casts operands to equal sizes where an operator needs them."""

    operator = ""
    """The source's operator that is being imported; if empty, messages name Relax's operator."""

    dimensions: Collection[str] | None = None
    """Names of the inputs' dimensions; None if all sizes follow from them."""

    is_taken: Any | None = None
    """In a branch, 1 if it is taken and else 0; None outside of branches."""

    branch_sizes: list[EqualSizes] | None = None
    """In a branch, the sizes of inputs that it needs to be equal; None outside of branches."""

    @property
    def equal_sizes(self) -> list[EqualSizes]:
        """The sizes assumed equal so far."""
        return self.__dict__.setdefault("_equal_sizes", [])

    def emit(self, expr: Any, name_hint: str = "") -> Any:
        """Bind a variable to an expression."""
        return super().emit(self._equalize(expr), name_hint)

    def normalize(self, expr: Any) -> Any:
        """An expression with its type."""
        return super().normalize(self._equalize(expr))

    def _equalize(self, expression: Any) -> Any:
        """The expression with its operands cast to equal sizes; unchanged if all shapes are fixed."""
        if not isinstance(expression, relax.Call) or not (
            any(map(_is_dynamic, variables(expression))) or _has_dynamic_target(expression)
        ):
            return expression
        call = with_operands(expression, [self._operand(operand) for operand in operands_of(expression)])
        call = self._equalize_target(call)
        operands = operands_of(call)
        shapes = [shape for operand in operands if (shape := _shape(operand)) is not None]
        if len(shapes) < len(operands):
            return call
        wanted = [list(shape) for shape in shapes]
        for positions in filter(None, _equal_positions(call, wanted)):
            self._unify(positions, wanted, call)
        return with_operands(call, list(map(self._cast, operands, shapes, wanted)))

    def _operand(self, operand: Any) -> Any:
        """An operand as a variable; TVM's builder returns the same variable for the same expression."""
        if not isinstance(operand, relax.Call):
            return operand
        return super().normalize(relax.Tuple([self._equalize(operand)])).fields[0]

    def _unify(self, positions: Sequence[Position], shapes: list[list[Any]], call: Any) -> None:
        """Give axes the simplest of their sizes; TVM reports two different constants."""
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
        if self.is_taken is not None:
            return self._fit(operand, wanted)
        return self.match_cast(operand, relax.TensorType(wanted, operand.ty.dtype))

    def _fit(self, data: Any, shape: Sequence[Any]) -> Any:
        """A tensor cut or filled with zeros to a shape.

        A branch is computed whether it is taken or not, and a branch that is not taken may have sizes that do not fit.
        """

        sizes = list(map(tvm.sym.Analyzer().simplify, shape))

        def compute(tensor: Any) -> Any:
            def element(*at: Any) -> Any:
                within = [index < size for index, size in zip(at, tensor.shape, strict=True)]
                return tirx.if_then_else(tirx.all(*within), tensor(*at), tirx.const(0, tensor.dtype))

            return te.compute(sizes, element, name="fit", tag=topi.tag.INJECTIVE)

        return self.emit_te(compute, data, primfunc_name_hint="fit")

    def _equalize_target(self, call: Any) -> Any:
        """Record the sizes that a reshape, a broadcast or a ``grid_sample`` needs to be equal; in a branch, fit its operand."""
        if is_call(call, "image.grid_sample"):
            self._note_reflection(call)
        if not is_call(call, "reshape", "broadcast_to"):
            return call
        data, shape, wanted = call.args[0], _shape(call.args[0]), call.args[1]
        if shape is None or not isinstance(wanted, relax.ShapeExpr):
            return call
        if is_call(call, "reshape"):
            sizes, targets = [_count(shape)], [_count(wanted.values)]
        else:
            sizes = list(shape)
            targets = [
                size if _is_one(size) else target
                for size, target in zip(shape, list(wanted.values)[-len(shape) :], strict=True)
            ] if shape else []  # fmt: skip
        unequal = [pair for pair in zip(sizes, targets, strict=True) if not _is_equal(*pair)]
        for size, target in unequal:
            self._note(size, target, call)
        if self.is_taken is None or not unequal:
            return call
        if is_call(call, "reshape"):
            data = super().emit(relax.op.reshape(data, relax.ShapeExpr(sizes)))
        return with_operands(call, [self._fit(data, targets), wanted])

    def _note_reflection(self, call: Any) -> None:
        """Require at least two pixels an axis: with reflection, ``grid_sample`` divides by the distance of the outermost ones."""
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
        """Record sizes to be checked when the network starts; sizes that the network computes itself are checked at this point.

        In a branch, sizes are checked at this point, and only if the branch is taken.
        """
        pair = [
            size if isinstance(size, tvm.ir.Expr) else tirx.IntImm("int64", size) for size in (sizes.size, sizes.wanted)
        ]
        names = {str(variable.name) for size in pair for variable in tirx.analysis.undefined_vars(size)}
        is_at_start = self.dimensions is None or names <= set(self.dimensions)
        if is_at_start and self.is_taken is None:
            self.equal_sizes.append(sizes)
            return
        if self.is_taken is not None:
            if is_at_start and self.branch_sizes is not None:
                self.branch_sizes.append(sizes)
            pair = [self.is_taken * size for size in pair]
        elif isinstance(pair[1], tirx.Var):
            pair.reverse()
        if isinstance(pair[1], tirx.Var):
            # A sum, because a cast to a variable is not possible. Repair: `recursion-at-casts`.
            pair = [pair[0] + pair[1], pair[1] + pair[1]]
        self.match_cast(self.emit(relax.ShapeExpr(pair[:1])), relax.ShapeType(pair[1:]))

    def require_in_both(self, first: Sequence[EqualSizes], second: Sequence[EqualSizes]) -> None:
        """Record the sizes that both branches need to be equal, to be checked when the network starts."""
        known = {(size_text(sizes.size), size_text(sizes.wanted)) for sizes in first}
        outer = self.equal_sizes if self.branch_sizes is None else self.branch_sizes
        outer += [sizes for sizes in second if (size_text(sizes.size), size_text(sizes.wanted)) in known]


def operands_of(call: Any) -> list[Any]:
    """The operands of a call, including those in a tuple."""
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
    """Groups of axes that need equal sizes, without broadcast axes of size 1."""
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
    for offset in range(1, max(map(len, shapes)) + 1):
        positions = [(operand, len(shape) - offset) for operand, shape in enumerate(shapes) if len(shape) >= offset]
        yield [(operand, axis) for operand, axis in positions if not _is_one(shapes[operand][axis])]


def _shape(value: Any) -> list[Any] | None:
    kind: Any = getattr(value, "ty", None)
    is_known = isinstance(kind, relax.TensorType) and isinstance(kind.shape, relax.ShapeExpr)
    return list(kind.shape.values) if is_known else None


def _is_dynamic(value: Any) -> bool:
    return any(not isinstance(size, tirx.IntImm) for size in _shape(value) or ())


def _is_one(size: Any) -> bool:
    return isinstance(size, tirx.IntImm) and int(size) == 1


def _is_same(first: Any, second: Any) -> bool:
    return bool(first is second or first.same_as(second))


def _is_equal(first: Any, second: Any) -> bool:
    return _is_same(first, second) or tvm.sym.Analyzer().can_prove_equal(first, second)


def _has_dynamic_target(call: Any) -> bool:
    """Whether a reshape or a broadcast has a target with dynamic dimensions."""
    target = call.args[1] if is_call(call, "reshape", "broadcast_to") else None
    return isinstance(target, relax.ShapeExpr) and not all(isinstance(size, tirx.IntImm) for size in target.values)


def _count(shape: Sequence[Any]) -> Any:
    count = tirx.IntImm("int64", 1)
    for size in shape:
        count = count * size
    return count


def _coarseness(size: Any) -> tuple[bool, int, bool]:
    """Order of preference among sizes: a constant, then the largest divisor, then an expression over a dimension.

    A cast to a dimension itself is not possible. Repair: `recursion-at-casts`.
    """
    return isinstance(size, tirx.IntImm), prod(divisors(size)), not isinstance(size, tirx.Var)
