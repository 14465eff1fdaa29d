"""Dimensions of tensors and loops: numbers, or expressions of what is known when a network runs."""

from typing import Any

import tvm
import tvm_ffi

TYPICAL_EXTENT = 256
"""What estimates take a dynamic dimension to be: long enough that tiles are chosen for their speed and threads are used."""

LARGEST_TYPICAL = 1024
"""What estimates take products of dynamic dimensions to be at most."""


MAX_FACTOR = 64
"""The largest factor that is looked for."""

Extent = Any
"""An int, or an expression of dynamic dimensions."""


def is_known(value: Any) -> bool:
    """Whether an extent is a number, not a dynamic dimension."""
    return isinstance(value, int | tvm.tirx.IntImm)


def estimate_extent(value: Any) -> int:
    """An extent; where it is dynamic, its value for dimensions of :data:`TYPICAL_EXTENT`."""
    if is_known(value):
        return int(value)
    typical = tvm_ffi.structural_map(
        value, (tvm.ir.Var, lambda variable: tvm.tirx.const(TYPICAL_EXTENT, variable.ty.dtype))
    )
    estimate = tvm.sym.Analyzer().simplify(typical)
    return max(1, min(int(estimate), LARGEST_TYPICAL)) if is_known(estimate) else TYPICAL_EXTENT


def whole_factor(extent: Extent, size: Extent) -> int | None:
    """How many times a length is in another, whatever its value; None if that is not the same whole number for all."""
    if is_known(extent) and is_known(size):
        return int(size) // int(extent) if int(extent) and int(size) % int(extent) == 0 else None
    analyzer = tvm.sym.Analyzer()
    return next(
        (factor for factor in range(1, MAX_FACTOR + 1) if analyzer.can_prove_equal(extent * factor, size)), None
    )
