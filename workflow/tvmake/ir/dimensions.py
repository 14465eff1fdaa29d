"""Dimensions of tensors and loops: constants, or expressions of dynamic dimensions."""

from typing import Any

import tvm
import tvm_ffi

TYPICAL_EXTENT = 256
"""Assumed size of a dynamic dimension: large enough that schedules use fast tiles and threads."""

LARGEST_TYPICAL = 1024
"""Largest assumed product of dynamic dimensions."""


MAX_FACTOR = 64
"""Largest factor that ``whole_factor`` tries."""

Extent = Any
"""An int, or an expression of dynamic dimensions."""


def is_known(value: Any) -> bool:
    """Whether an extent is a constant."""
    return isinstance(value, int | tvm.tirx.IntImm)


def estimate_extent(value: Any) -> int:
    """Return an extent; a dynamic one for dimensions of :data:`TYPICAL_EXTENT`."""
    if is_known(value):
        return int(value)
    typical = tvm_ffi.structural_map(
        value, (tvm.ir.Var, lambda variable: tvm.tirx.const(TYPICAL_EXTENT, variable.ty.dtype))
    )
    estimate = tvm.sym.Analyzer().simplify(typical)
    return max(1, min(int(estimate), LARGEST_TYPICAL)) if is_known(estimate) else TYPICAL_EXTENT


def whole_factor(extent: Extent, size: Extent) -> int | None:
    """Return the integer ``size / extent`` if it is the same for all values of dynamic dimensions; None otherwise."""
    if is_known(extent) and is_known(size):
        return int(size) // int(extent) if int(extent) and int(size) % int(extent) == 0 else None
    analyzer = tvm.sym.Analyzer()
    return next(
        (factor for factor in range(1, MAX_FACTOR + 1) if analyzer.can_prove_equal(extent * factor, size)), None
    )
