"""Operands that Relax cannot tell to fit each other: a table of positions cut to a sequence's length has ``min(length, rows)`` rows.

They fit wherever the network can be computed at all. A sequence beyond its table gives NaN, so that none passes for right: a
check by ``match_cast`` would end TVM 0.27's ``CanonicalizeBindings`` in an endless recursion.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any

import tvm

from tvmake.frontend.onnx.extents import Extents, shape_of

from tvm import relax, tirx  # isort: skip


ELEMENTWISE = {
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Min", "Max", "Sum", "Mean", "And", "Or", "Xor", "Where", "Equal", "Less", "Greater",
    "LessOrEqual", "GreaterOrEqual", "PRelu", "BiasGelu", "FastGelu",
}  # fmt: skip


def fitted(operator: str, inputs: list[Any], extents: Extents) -> list[Any]:
    """The operands; those of floats with the extent ``min(n, …)``, beside one of ``n``, get that extent."""
    shapes = [shape_of(value) if isinstance(value, tvm.ir.Expr) else None for value in inputs]
    if operator not in ELEMENTWISE or not any(isinstance(one, tirx.Min) for shape in shapes for one in shape or ()):
        return inputs
    found = copy(inputs)  # TVM's kind of list
    for index, (value, shape) in enumerate(zip(inputs, shapes, strict=True)):
        is_of_floats = shape is not None and str(value.ty.dtype.dtype).startswith("float")
        for axis, extent in enumerate(shape or () if is_of_floats else ()):
            place = len(shape or ()) - axis
            wanted = _wanted(extent, [other[-place] for other in shapes if other and place <= len(other)], extents)
            if wanted is not None:
                rows = relax.op.arange(wanted, dtype="int64")
                value = extents.builder.emit(relax.op.take(value, rows, axis, mode="nan"))
        found[index] = value
    return found


def _wanted(extent: Any, others: Sequence[Any], extents: Extents) -> Any | None:
    """Another operand's extent, where this one is that or less."""
    if isinstance(extent, tirx.Min):
        for other in others:
            is_open = isinstance(other, tvm.ir.Expr) and not isinstance(other, tirx.Min)
            if is_open and any(extents.difference(part, other) == (0, 0) for part in (extent.a, extent.b)):
                return other
    return None


def unequal(operator: str, inputs: Sequence[Any], result: Any) -> str | None:
    """Which operands do not go together whatever the inputs' open extents are, in words; None where they do.

    TVM 0.27 has no shape for what comes of them, and fails later, without a word on why.
    """
    if operator not in ELEMENTWISE | {"Concat", "MatMul"} or not isinstance(result.ty, relax.TensorType):
        return None
    operands = [value for value in inputs if isinstance(value, tvm.ir.Expr) and isinstance(value.ty, relax.TensorType)]
    shapes = [shape_of(value) for value in operands]
    if shape_of(result) is not None or any(shape is None for shape in shapes):
        return None
    written = [f"[{', '.join(str(extent) for extent in shape or ())}]" for shape in shapes]
    return f"its operands {' and '.join(dict.fromkeys(written))} go together for some extents alone"
