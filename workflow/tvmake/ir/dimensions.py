"""Dimensions of tensors and loops: numbers, or expressions of what is known when a network runs."""

from typing import Any

import tvm
import tvm_ffi

TYPICAL_EXTENT = 256
"""What estimates take a dynamic dimension to be: long enough that tiles are chosen for their speed and threads are used."""

LARGEST_TYPICAL = 1024
"""What estimates take products of dynamic dimensions to be at most."""


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
