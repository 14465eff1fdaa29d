"""Equalise operands' dimensions that Relax cannot prove equal.

A table sliced at ``[past : past + n]`` has ``min(past + n, rows) - min(past, rows)`` rows. The operand gets the dimension of the other
operands, and the package checks the size at run time. An index beyond the table is an error, as in ONNX Runtime.
"""

import itertools
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

import tvm
import tvm_ffi

from tvmake.frontend.onnx.dynamic.shape_values import ShapeValues, shape_of
from tvmake.ir.expressions import is_call

from tvm import relax, tirx  # isort: skip


ELEMENTWISE = {
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Min", "Max", "Sum", "Mean", "And", "Or", "Xor", "Where", "Equal", "Less", "Greater",
    "LessOrEqual", "GreaterOrEqual", "PRelu", "BiasGelu", "FastGelu",
}  # fmt: skip

CHOICE = (tirx.Min, tirx.Max)


def equalize_operands(operator: str, inputs: list[Any], extents: ShapeValues) -> list[Any]:
    """The operands, with dimensions that contain a minimum or maximum replaced by matching dimensions of other operands."""
    shapes = [shape_of(value) if isinstance(value, tvm.ir.Expr) else None for value in inputs]
    if operator == "Expand":
        target = extents.of(inputs[1])
        shapes[1] = None if target is None else list(target)
    if operator not in ELEMENTWISE | {"Expand"} or not any(
        _choices(extent) for shape in shapes for extent in shape or ()
    ):
        return inputs
    operands = copy(inputs)  # keeps TVM's list type
    for index, (value, shape) in enumerate(zip(inputs, shapes, strict=True)):
        if operator == "Expand" and index:
            break
        for axis, extent in enumerate(shape or ()):
            position = len(shape or ()) - axis
            others = [other[-position] for other in shapes if other and position <= len(other)]
            wanted = _matching_dimension(extent, others, extents)
            if wanted is not None:
                value = _with_dimension(value, axis, wanted, extents)
        operands[index] = value
    return operands


def _choices(extent: Any) -> list[Any]:
    """The minima and maxima in a dimension."""
    choices: list[Any] = []
    if isinstance(extent, tvm.ir.Expr):
        tvm_ffi.structural_walk(extent, (CHOICE, choices.append))
    return choices


def _choice_values(extent: Any) -> Iterator[Any]:
    """A dimension with its minima and maxima replaced by one of their operands, for all combinations."""
    for choices in itertools.product((0, 1), repeat=len(_choices(extent))):
        chosen = iter(choices)
        yield tvm_ffi.structural_map(extent, (CHOICE, lambda node, chosen=chosen: (node.a, node.b)[next(chosen)]))


def _matching_dimension(extent: Any, others: Sequence[Any], extents: ShapeValues) -> Any | None:
    """Another operand's dimension that may equal this one; 1 if this one is at most 1 and is broadcast; None otherwise.

    The package checks the size at run time.
    """
    others = [other for other in others if isinstance(other, tvm.ir.Expr) or other != 1]
    if not _choices(extent) or not any(not _choices(other) for other in others):
        return None
    if extents.difference(extent, 0)[1] <= 1:
        for other in others:  # 0 broadcasts with 0 and 1 only
            extents.require(extent, extents.greatest(extent, extents.least(other, 1)))
        return 1
    candidates = list(_choice_values(extent))
    for other in others:
        if any(extents.difference(candidate, other) == (0, 0) for candidate in candidates):
            extents.require(extent, other)
            return other
    return None


def _with_dimension(value: Any, axis: int, wanted: Any, extents: ShapeValues) -> Any:
    """The first ``wanted`` elements of a tensor along an axis; a slice of a slice becomes one slice."""
    data, slices = value, {}
    source = extents.builder.lookup_binding(value) if isinstance(value, relax.Var) else None
    if (
        source is not None
        and is_call(source, "strided_slice")
        and source.attrs.assume_inbound
        and all(step == 1 for step in source.args[4])
    ):
        data, axes, begins, ends, _ = source.args
        slices = {int(number): pair for number, *pair in zip(axes, begins, ends, strict=True)}
    begin = slices[axis][0] if axis in slices else tirx.IntImm("int64", 0)
    slices[axis] = [begin, begin + wanted]
    begins, ends = ([pair[index] for pair in slices.values()] for index in (0, 1))
    cut = relax.op.strided_slice(data, list(slices), begins, ends, [1] * len(slices), assume_inbound=True)
    return extents.builder.emit(cut)
