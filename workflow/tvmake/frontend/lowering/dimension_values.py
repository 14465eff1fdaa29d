"""Dimensions as tensor values; the values of dynamic dimensions are known at run time."""

from typing import Any

from tvm import relax  # isort: skip

Extent = Any
"""An int, or a TVM expression of dynamic dimensions."""


def extents_of(value: Any) -> list[Extent]:
    """The shape of a value."""
    return [int(extent) if hasattr(extent, "value") else extent for extent in value.ty.shape]


def whole_number(extent: Extent) -> Any:
    """An int64 scalar tensor with the value of a dimension."""
    if isinstance(extent, int):
        return relax.const(extent, "int64")
    return relax.op.take(relax.op.shape_to_tensor(relax.ShapeExpr([extent])), relax.const(0, "int64"), axis=0)
