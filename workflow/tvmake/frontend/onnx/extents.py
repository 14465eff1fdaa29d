"""Integers that a network computes from its dynamic extents, as expressions of them.

TVM 0.27's importer holds a shape as an expression of its own kind, which few of its converters take: most refuse it, or fail. Here
every such value is a tensor, and what it holds is remembered beside it: arithmetic is done on the expressions, and operators
that want a shape get one. What is computed from such tensors in another way is computed by the network.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from onnx import TensorProto, helper, numpy_helper

from tvm import relax, tirx  # isort: skip

Values = np.ndarray
"""Of ints and expressions, in an array of objects."""

MOST = 64
"""Elements of a constant that is looked at."""

WHOLE = 1 << 31
"""An end of a slice from here on is the extent."""


class Extents:
    """The values that tensors of integers hold, as far as they are known while a network is imported."""

    def __init__(self, builder: Any):
        self.builder = builder
        self._known: dict[Any, Values] = {}
        self._variables: set[Any] = set()
        self._analyzer = tvm.sym.Analyzer()
        self._required: set[str] = set()

    def of(self, value: Any) -> Values | None:
        """What a value holds; None where it is not known."""
        if value is None:
            return None
        if isinstance(value, tvm.ir.GenericConst):
            held = value.value.numpy()
            return held.astype(object) if held.dtype.kind in "ib" and held.size <= MOST else None
        if isinstance(value, relax.ShapeExpr):
            return _array(list(value.values))
        if tvm.ir.is_prim_expr(value):
            return _array(value)
        return self._known.get(value) if isinstance(value, relax.Var) else None

    def tensor(self, values: Values, dtype: str = "int64") -> Any:
        """A tensor that holds these values: a constant where all are numbers."""
        values = _array([self._simple(one) for one in values.reshape(-1)]).reshape(values.shape)
        if not _is_symbolic(values):
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

    def converted(self, operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any | None:
        """What an operator makes of values that hold extents; None where it has to be computed as any other."""
        held = [self.of(value) for value in inputs]
        if not any(values is not None and _is_symbolic(values) for values in held):
            return None
        if operator in SHAPED:
            return SHAPED[operator](self, inputs, held, attributes)
        if operator not in EVALUATED or any(
            values is None and value is not None for values, value in zip(held, inputs, strict=True)
        ):
            return None
        result = EVALUATED[operator](self, held, attributes)
        if result is None:
            return None
        is_truth = operator in COMPARISONS
        return self.tensor(result, "bool" if is_truth else _type(operator, inputs, attributes))

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
        key = f"{extent} {wanted}"
        if key in self._required or self.difference(extent, wanted) == (0, 0):
            return
        self._required.add(key)
        # TVM 0.27's CanonicalizeBindings would put the one in place of the other without end, were the other a variable.
        found, required = (_expression(wanted + one) for one in (extent, wanted))
        shape = self.builder.emit(relax.ShapeExpr([found]))
        self.builder.match_cast(shape, relax.ShapeType([required]))

    def _simple(self, value: Any) -> Any:
        if not isinstance(value, tvm.ir.Expr):
            return int(value) if not isinstance(value, bool | np.bool_) else bool(value)
        self.bounds(value)  # declares its variables
        simple = self._analyzer.simplify(value)
        return int(simple) if isinstance(simple, tirx.IntImm) else simple

    def least(self, one: Any, other: Any) -> Any:
        """The smaller of two values, which is one of them where that is certain."""
        low, high = self.difference(one, other)
        return one if high <= 0 else other if low >= 0 else tirx.min(*map(_expression, (one, other)))

    def greatest(self, one: Any, other: Any) -> Any:
        """The larger of two values."""
        low, high = self.difference(one, other)
        return other if high <= 0 else one if low >= 0 else tirx.max(*map(_expression, (one, other)))


def _array(values: Any) -> Values:
    """Values as an array of objects, which numpy must not look into."""
    listed = values if isinstance(values, list) else [values]
    made = np.empty(len(listed), object)
    for index, one in enumerate(listed):
        made[index] = int(one) if isinstance(one, tirx.IntImm) else one
    return made if isinstance(values, list) else made.reshape(())


def _expression(value: Any) -> Any:
    return value if isinstance(value, tvm.ir.Expr) else tirx.IntImm("int64", int(value))


def _is_symbolic(values: Values) -> bool:
    return any(isinstance(one, tvm.ir.Expr) for one in values.reshape(-1))


def _type(operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> str:
    if operator == "Cast":
        return str(helper.tensor_dtype_to_np_dtype(attributes["to"]).name)
    value = inputs[1 if operator == "Where" else 0]
    kind = getattr(value, "ty", None)
    return str(kind.dtype.dtype) if isinstance(kind, relax.TensorType) else "int64"


Held = Sequence[Values | None]
Evaluate = Callable[[Extents, Any, Mapping[str, Any]], Values | None]


def _each(compute: Callable[[Extents, Any, Any], Any]) -> Evaluate:
    """A function of two values, for every pair of two arrays; None where a pair gives none."""

    def evaluate(extents: Extents, held: Any, attributes: Mapping[str, Any]) -> Values | None:
        result = held[0]
        for other in held[1:]:
            first, second = np.broadcast_arrays(result, other)
            found = [compute(extents, *pair) for pair in zip(first.reshape(-1), second.reshape(-1), strict=True)]
            if any(one is None for one in found):
                return None
            result = _array(found).reshape(first.shape)
        return result

    return evaluate


def _divided(extents: Extents, one: Any, other: Any) -> Any:
    """Towards zero; extents are not below it, and their quotients are those that shapes have."""
    if extents.bounds(other) == (0, 0):
        return None
    if not isinstance(one, tvm.ir.Expr) and not isinstance(other, tvm.ir.Expr):
        return int(one / other) if abs(one) < WHOLE else None
    is_positive = extents.bounds(one)[0] >= 0 and extents.bounds(other)[0] >= 0
    return (tirx.floordiv if is_positive else tirx.truncdiv)(_expression(one), _expression(other))


def _remainder(extents: Extents, one: Any, other: Any) -> Any:
    return None if extents.bounds(other) == (0, 0) else tirx.floormod(_expression(one), _expression(other))


def _compared(decide: Callable[[int, int], bool | None]) -> Evaluate:
    return _each(lambda extents, one, other: decide(*extents.difference(one, other)))


def _equal(low: int, high: int) -> bool | None:
    return True if low == high == 0 else False if low > 0 or high < 0 else None


def _less(low: int, high: int) -> bool | None:
    return True if high < 0 else False if low >= 0 else None


def _greater(low: int, high: int) -> bool | None:
    return True if low > 0 else False if high <= 0 else None


def _gather(extents: Extents, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    data, at = held
    if _is_symbolic(at):
        return None
    return np.asarray(np.take(data, at.astype(np.int64), axis=attributes.get("axis", 0)), object)


def _slice(extents: Extents, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    if any(part is not None and _is_symbolic(part) for part in held[1:]):
        return None
    data, starts, ends, *more = held
    axes = more[0].tolist() if more and more[0] is not None else list(range(len(starts)))
    steps = more[1].tolist() if len(more) > 1 and more[1] is not None else [1] * len(axes)
    where = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts.tolist(), ends.tolist(), steps, strict=True):
        where[axis] = slice(start, None if step < 0 and end < -len(data) else end, step)
    return data[tuple(where)]


def _concat(extents: Extents, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    return np.concatenate(held, axis=attributes["axis"])


def _squeeze(extents: Extents, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    return held[0].reshape(()) if held[0].size == 1 and held[0].ndim == 1 else None


def _unsqueeze(extents: Extents, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    axes = held[1].tolist() if len(held) > 1 else list(attributes["axes"])
    return np.expand_dims(held[0], tuple(axes))


def _reshape(extents: Extents, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    if _is_symbolic(held[1]) or 0 in held[1].tolist():
        return None
    return held[0].reshape(held[1].tolist())


def _cast(extents: Extents, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    return held[0] if attributes["to"] in (TensorProto.INT64, TensorProto.INT32) else None


def _where(extents: Extents, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    condition, one, other = np.broadcast_arrays(*held)
    if _is_symbolic(condition):
        return None
    return np.where(condition.astype(bool), one, other)


def _reduced(compute: Callable[[Any], Any]) -> Evaluate:
    """A reduction of a list."""

    def evaluate(extents: Extents, held: Any, attributes: Mapping[str, Any]) -> Values | None:
        axes = held[1].tolist() if len(held) > 1 and held[1] is not None else list(attributes.get("axes", [0]))
        if held[0].ndim != 1 or axes not in ([0], [-1]):
            return None
        return _array(compute(held[0])).reshape([1] if attributes.get("keepdims", 1) else [])

    return evaluate


def _clip(extents: Extents, held: Any, attributes: Mapping[str, Any]) -> Values | None:
    data, *limits = held
    for limit, choose in zip(limits, (Extents.greatest, Extents.least), strict=False):
        if limit is not None:
            data = _array([choose(extents, one, limit.reshape(-1)[0]) for one in data.reshape(-1)]).reshape(data.shape)
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
    "Min": _each(Extents.least),
    "Max": _each(Extents.greatest),
    "Neg": lambda extents, held, attributes: -held[0],
    "Identity": lambda extents, held, attributes: held[0],
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
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
    return [_array(one)[()] for one in shape.values] if isinstance(shape, relax.ShapeExpr) else None


def _to_shape(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    data, target = inputs[0], held[1]
    if held[0] is not None and (result := EVALUATED["Reshape"](extents, held, attributes)) is not None:
        return extents.tensor(result)
    if target is None or not isinstance(data.ty, relax.TensorType):
        return None
    if attributes.get("allowzero") and any(isinstance(one, int) and one == 0 for one in target):
        return None  # 0 copies an extent for Relax
    return relax.op.reshape(data, [_expression(one) for one in target])


def _expanded(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    """Extents broadcast both ways; of two dynamic ones the package checks that they are equal."""
    target, shape = held[1], shape_of(inputs[0])
    if target is None or shape is None:
        return None
    rank = max(len(shape), len(target))
    sizes, wanted = ([1] * (rank - len(part)) + list(part) for part in (shape, target))
    result = [b if isinstance(a, int) and a == 1 else a if isinstance(a, int) else b if b != 1 else a
              for a, b in zip(sizes, wanted, strict=True)]  # fmt: skip
    for pair in zip(sizes, wanted, strict=True):
        if all(isinstance(one, tvm.ir.Expr) for one in pair) and extents.difference(*pair) != (0, 0):
            extents.require(*pair)
    return relax.op.broadcast_to(inputs[0], relax.ShapeExpr([_expression(one) for one in result]))


def _filled(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    value = attributes.get("value")
    number = numpy_helper.to_array(value).reshape(()) if value is not None else np.float32(0)
    shape = relax.ShapeExpr([_expression(one) for one in held[0]])  # type: ignore[union-attr]
    return relax.op.broadcast_to(relax.const(number, str(number.dtype)), shape)


def _counted(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    if any(part is None for part in held):
        return None
    dtype = _type("Range", inputs, attributes)
    return relax.op.arange(*(_expression(part.reshape(-1)[0]) for part in held), dtype=dtype)  # type: ignore[union-attr]


def _cut(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    """A slice between places that are counted from the front, and lie within."""
    if held[0] is not None:
        result = None if any(part is None and given is not None for part, given in zip(held, inputs, strict=True)) else (
            _slice(extents, held, attributes)
        )  # fmt: skip
        if result is not None:
            return extents.tensor(result, _type("Slice", inputs, attributes))
    shape = shape_of(inputs[0])
    starts, ends, axes, steps = (held[index] if index < len(held) else None for index in range(1, 5))
    if shape is None or starts is None or ends is None or (steps is not None and any(one != 1 for one in steps)):
        return None
    places = [int(one) % len(shape) for one in axes] if axes is not None else list(range(len(starts)))
    bounds = []
    for axis, *pair in zip(places, starts, ends, strict=True):
        placed = [_placed(extents, one, shape[axis]) for one in pair]
        bounds.append([_expression(one) for one in (placed[0], extents.greatest(*placed))])
    begins, stops = ([pair[index] for pair in bounds] for index in range(2))
    return relax.op.strided_slice(inputs[0], places, begins, stops, [1] * len(places), assume_inbound=True)


def _placed(extents: Extents, place: Any, extent: Any) -> Any:
    """A place of an axis counted from the front, at most its end."""
    if not isinstance(place, tvm.ir.Expr) and place >= WHOLE - 1:
        return extent
    low, high = extents.bounds(place)
    if high < 0:
        return extents.greatest(extent + place, 0)
    if low >= 0:
        return extents.least(place, extent)
    before = extents.difference(place, extent)
    if before[0] == before[1] and before[0] in (-1, -2):
        return extents.greatest(place, 0)  # the last but one of one element is before it, counted from either end
    from_end = extents.greatest(extent + place, 0)
    # Not a call of if_then_else, which Relax would bind to a variable of its own.
    return tirx.Select(place < 0, _expression(from_end), _expression(extents.least(place, extent)))


def _repeated(extents: Extents, inputs: Sequence[Any], held: Held, attributes: Mapping[str, Any]) -> Any | None:
    """Copies along new axes, joined with those that follow them."""
    times, shape = held[1], shape_of(inputs[0])
    if times is None or shape is None:
        return None
    pairs = list(zip(times, shape, strict=True))
    apart = [one for _, extent in pairs for one in (1, extent)]
    copied = [one for pair in pairs for one in pair]
    separate = extents.builder.emit(relax.op.reshape(inputs[0], [_expression(one) for one in apart]))
    copies = extents.builder.emit(
        relax.op.broadcast_to(separate, relax.ShapeExpr([_expression(one) for one in copied]))
    )
    return relax.op.reshape(copies, [_expression(count * extent) for count, extent in pairs])


SHAPED: Mapping[str, Callable[[Extents, Sequence[Any], Held, Mapping[str, Any]], Any | None]] = {
    "Reshape": _to_shape,
    "Expand": _expanded,
    "ConstantOfShape": _filled,
    "Range": _counted,
    "Slice": _cut,
    "Tile": _repeated,
}
"""Operators that take a shape, or places."""
