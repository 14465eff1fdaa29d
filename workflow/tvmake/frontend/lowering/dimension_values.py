"""Dimensions as values that a kernel reads; dynamic ones are known when it runs."""

from typing import Any

from tvm import relax  # isort: skip

Extent = Any
"""An int, or TVM's expression of dynamic dimensions."""


def extents_of(value: Any) -> list[Extent]:
    """The shape of a value: ints, and expressions of dynamic dimensions."""
    return [int(extent) if hasattr(extent, "value") else extent for extent in value.ty.shape]


def whole_number(extent: Extent) -> Any:
    """A tensor of rank 0, int64, that holds a dimension or an expression of dimensions."""
    if isinstance(extent, int):
        return relax.const(extent, "int64")
    return relax.op.take(relax.op.shape_to_tensor(relax.ShapeExpr([extent])), relax.const(0, "int64"), axis=0)
