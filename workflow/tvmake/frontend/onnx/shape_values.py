"""Integers that a network computes from its dynamic dimensions, as expressions of them.

Every such value is a tensor, and its values are remembered beside it: arithmetic is done on the expressions, and operators that take a
shape get one. The network computes what is not known. Repair: `onnx-shape-expressions`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from onnx import TensorProto, helper

from tvmake.frontend.equal_sizes import EqualSizes

from tvm import relax, tirx  # isort: skip

Values = np.ndarray
"""Of ints and expressions, in an array of objects."""

MOST = 64
"""Elements of a constant that is looked at."""

WHOLE = 1 << 31
"""No dimension is larger."""


class ShapeValues:
    """The values that tensors of integers hold, as far as they are known while a network is imported."""

    def __init__(self, builder: Any):
        self.builder = builder
        self._known: dict[Any, Values] = {}
        self._known_as_floats: dict[Any, Values] = {}
        self._variables: set[Any] = set()
        self._analyzer = tvm.sym.Analyzer()

    def of(self, value: Any) -> Values | None:
        """What a value holds; None where it is not known."""
        if value is None:
            return None
        if isinstance(value, tvm.ir.GenericConst):
            held = value.value.numpy()
            return held.astype(object) if held.dtype.kind in "ib" and held.size <= MOST else None
        if isinstance(value, relax.ShapeExpr):
            return as_array(list(value.values))
        if tvm.ir.is_prim_expr(value):
            return as_array(value)
        return self._known.get(value) if isinstance(value, relax.Var) else None

    def whole_numbers(self, value: Any) -> Values | None:
        """What a value holds, which may be of a floating-point type; None where that is not known, or no whole numbers."""
        if isinstance(value, tvm.ir.GenericConst):
            held = value.value.numpy()
            is_small = held.size <= MOST and bool(np.all(np.abs(held) < WHOLE))
            return held.astype(np.int64).astype(object) if is_small and np.all(held == np.floor(held)) else None
        known = self.of(value)
        return self._known_as_floats.get(value) if known is None and isinstance(value, relax.Var) else known

    def note_cast(self, value: Any, made: Any) -> Any:
        """Remember what numbers a cast to a floating-point type holds; the cast, as a variable then."""
        values = self.of(value)
        if values is None or not is_symbolic(values) or not isinstance(made, relax.Expr) or made in self._known:
            return made
        made = made if isinstance(made, relax.Var) else self.builder.emit(made)
        self._known_as_floats[made] = values
        return made

    def tensor(self, values: Values, dtype: str = "int64") -> Any:
        """A tensor that holds these values: a constant where all are numbers."""
        values = as_array([self._simple(one) for one in values.reshape(-1)]).reshape(values.shape)
        if not is_symbolic(values):
            return relax.const(values.astype(dtype), dtype)
        flat = [one if isinstance(one, tvm.ir.Expr) else tirx.IntImm("int64", int(one)) for one in values.reshape(-1)]
        made = self.builder.emit(relax.op.shape_to_tensor(relax.ShapeExpr(flat)))
        if values.ndim != 1:
            made = self.builder.emit(relax.op.reshape(made, list(values.shape)))
        if dtype != "int64":
            made = self.builder.emit(relax.op.astype(made, dtype))
        self._known[made] = values
        return made

    def settled(self, value: Any) -> Any:
        """A shape or a number of TVM's importer as a tensor; other values as they are."""
        is_shape = isinstance(value, relax.ShapeExpr) or (isinstance(value, tvm.ir.Expr) and tvm.ir.is_prim_expr(value))
        held = self.of(value) if is_shape else None
        return value if held is None else self.tensor(held)

    def bounds(self, value: Any) -> tuple[int, int]:
        """The least and the greatest that a value can be."""
        if not isinstance(value, tvm.ir.Expr):
            return int(value), int(value)

        for variable in tirx.analysis.undefined_vars(value):
            if variable not in self._variables:
                self._variables.add(variable)
                self._analyzer.bind(variable, tvm.ir.Range(tirx.IntImm("int64", 0), tirx.IntImm("int64", WHOLE)))
        bound = self._analyzer.const_int_bound(value)
        return int(bound.min_value), int(bound.max_value)

    def difference(self, one: Any, other: Any) -> tuple[int, int]:
        """The bounds of a difference."""
        return self.bounds(self._simple(one - other))

    def require(self, extent: Any, wanted: Any) -> None:
        """Have the package check, before it computes with it, that a dimension is another one."""
        if self.difference(extent, wanted) != (0, 0):
            sizes = EqualSizes(as_expression(extent), as_expression(wanted), self.builder.operator)
            self.builder.require_equal(sizes)

    def _simple(self, value: Any) -> Any:
        if not isinstance(value, tvm.ir.Expr):
            return int(value) if not isinstance(value, bool | np.bool_) else bool(value)
        self.bounds(value)  # declares its variables
        simple = self._analyzer.simplify(value)
        return int(simple) if isinstance(simple, tirx.IntImm) else simple

    def least(self, one: Any, other: Any) -> Any:
        """The smaller of two values, which is one of them where that is certain."""
        low, high = self.difference(one, other)
        return one if high <= 0 else other if low >= 0 else tirx.min(*map(as_expression, (one, other)))

    def greatest(self, one: Any, other: Any) -> Any:
        """The larger of two values."""
        low, high = self.difference(one, other)
        return other if high <= 0 else one if low >= 0 else tirx.max(*map(as_expression, (one, other)))


def as_array(values: Any) -> Values:
    """Values as an array of objects, which numpy must not look into."""
    listed = values if isinstance(values, list) else [values]
    made = np.empty(len(listed), object)
    for index, one in enumerate(listed):
        made[index] = int(one) if isinstance(one, tirx.IntImm) else one
    return made if isinstance(values, list) else made.reshape(())


def as_expression(value: Any) -> Any:
    return value if isinstance(value, tvm.ir.Expr) else tirx.IntImm("int64", int(value))


def is_symbolic(values: Values) -> bool:
    return any(isinstance(one, tvm.ir.Expr) for one in values.reshape(-1))


def element_type(operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> str:
    if operator == "Cast":
        return str(helper.tensor_dtype_to_np_dtype(attributes["to"]).name)
    value = inputs[1 if operator == "Where" else 0]
    kind = getattr(value, "ty", None)
    return str(kind.dtype.dtype) if isinstance(kind, relax.TensorType) else "int64"


Held = Sequence[Values | None]
Evaluate = Callable[[ShapeValues, Any, Mapping[str, Any]], Values | None]


def _each(compute: Callable[[ShapeValues, Any, Any], Any]) -> Evaluate:
    """A function of two values, for every pair of two arrays; None where a pair gives none."""

    def evaluate(extents: ShapeValues, held: Any, attributes: Mapping[str, Any]) -> Values | None:
        result = held[0]
        for other in held[1:]:
            first, second = np.broadcast_arrays(result, other)
            found = [compute(extents, *pair) for pair in zip(first.reshape(-1), second.reshape(-1), strict=True)]
            if any(one is None for one in found):
                return None
            result = as_array(found).reshape(first.shape)
        return result

    return evaluate


def _divided(extents: ShapeValues, one: Any, other: Any) -> Any:
    """Towards zero; extents are not below it, and their quotients are those that shapes have."""
    if extents.bounds(other) == (0, 0):
        return None
    if not isinstance(one, tvm.ir.Expr) and not isinstance(other, tvm.ir.Expr):
        return int(one / other) if abs(one) < WHOLE else None
    is_positive = extents.bounds(one)[0] >= 0 and extents.bounds(other)[0] >= 0
    return (tirx.floordiv if is_positive else tirx.truncdiv)(as_expression(one), as_expression(other))


def _remainder(extents: ShapeValues, one: Any, other: Any) -> Any:
    return None if extents.bounds(other) == (0, 0) else tirx.floormod(as_expression(one), as_expression(other))


def _compared(decide: Callable[[int, int], bool | None]) -> Evaluate:
    return _each(lambda extents, one, other: decide(*extents.difference(one, other)))


def _equal(low: int, high: int) -> bool | None:
    return True if low == high == 0 else False if low > 0 or high < 0 else None


def _less(low: int, high: int) -> bool | None:
    return True if high < 0 else False if low >= 0 else None


def _greater(low: int, high: int) -> bool | None:
    return True if low > 0 else False if high <= 0 else None


def _gather(extents: ShapeValues, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    data, at = held
    if is_symbolic(at):
        return None
    return np.asarray(np.take(data, at.astype(np.int64), axis=attributes.get("axis", 0)), object)


def slice_values(extents: ShapeValues, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    if any(part is not None and is_symbolic(part) for part in held[1:]):
        return None
    data, starts, ends, *more = held
    axes = more[0].tolist() if more and more[0] is not None else list(range(len(starts)))
    steps = more[1].tolist() if len(more) > 1 and more[1] is not None else [1] * len(axes)
    where = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts.tolist(), ends.tolist(), steps, strict=True):
        where[axis] = slice(start, None if step < 0 and end < -len(data) else end, step)
    return data[tuple(where)]


def _concat(extents: ShapeValues, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    return np.concatenate(held, axis=attributes["axis"])


def _squeeze(extents: ShapeValues, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    return held[0].reshape(()) if held[0].size == 1 and held[0].ndim == 1 else None


def _unsqueeze(extents: ShapeValues, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    axes = held[1].tolist() if len(held) > 1 else list(attributes["axes"])
    return np.expand_dims(held[0], tuple(axes))


def reshape_values(extents: ShapeValues, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    if is_symbolic(held[1]) or 0 in held[1].tolist():
        return None
    return held[0].reshape(held[1].tolist())


def _cast(extents: ShapeValues, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    return held[0] if attributes["to"] in (TensorProto.INT64, TensorProto.INT32) else None


def _where(extents: ShapeValues, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    condition, one, other = np.broadcast_arrays(*held)
    if is_symbolic(condition):
        return None
    return np.where(condition.astype(bool), one, other)


def _reduced(compute: Callable[[Any], Any]) -> Evaluate:
    """A reduction of a list."""

    def evaluate(extents: ShapeValues, held: Any, attributes: Mapping[str, Any]) -> Values | None:
        axes = held[1].tolist() if len(held) > 1 and held[1] is not None else list(attributes.get("axes", [0]))
        if held[0].ndim != 1 or axes not in ([0], [-1]):
            return None
        return as_array(compute(held[0])).reshape([1] if attributes.get("keepdims", 1) else [])

    return evaluate


def _clip(extents: ShapeValues, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    data, *limits = held
    for limit, choose in zip(limits, (ShapeValues.greatest, ShapeValues.least), strict=False):
        if limit is not None:
            data = as_array([choose(extents, one, limit.reshape(-1)[0]) for one in data.reshape(-1)]).reshape(
                data.shape
            )
    return data


COMPARISONS: Mapping[str, Evaluate] = {
    "Equal": _compared(_equal),
    "Less": _compared(_less),
    "Greater": _compared(_greater),
    "LessOrEqual": _compared(lambda low, high: None if (more := _greater(low, high)) is None else not more),
    "GreaterOrEqual": _compared(lambda low, high: None if (less := _less(low, high)) is None else not less),
}

EVALUATED: Mapping[str, Evaluate] = {
    "Add": _each(lambda extents, one, other: one + other),
    "Sub": _each(lambda extents, one, other: one - other),
    "Mul": _each(lambda extents, one, other: one * other),
    "Div": _each(_divided),
    "Mod": _each(_remainder),
    "Min": _each(ShapeValues.least),
    "Max": _each(ShapeValues.greatest),
    "Neg": lambda extents, held, attributes: -held[0],
    "Identity": lambda extents, held, attributes: held[0],
    "Gather": _gather,
    "Concat": _concat,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Cast": _cast,
    "Where": _where,
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "Clip": _clip,
    **COMPARISONS,
}
"""Operators of integers, by what they make of values that are known."""


def shape_of(value: Any) -> list[Any] | None:
    """The extents of a tensor; None where they are not known."""
    shape = value.ty.shape if isinstance(value.ty, relax.TensorType) else None
    return [as_array(one)[()] for one in shape.values] if isinstance(shape, relax.ShapeExpr) else None
