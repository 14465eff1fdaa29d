"""Dimensions of tensors and loops: constants, or expressions of dynamic dimensions."""

from collections.abc import Collection, Mapping
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


def dynamic_dimensions(function: "tvm.tirx.PrimFunc") -> dict[str, Any]:
    """The variables that are dynamic dimensions of a kernel's arguments, by name, in order."""
    variables: dict[str, Any] = {}
    for variable in dimension_variables(function):
        variables.setdefault(str(variable.name), variable)
    return variables


def dimension_variables(function: "tvm.tirx.PrimFunc") -> list[Any]:
    """The distinct variables that are dynamic dimensions of a kernel's arguments, in order."""
    variables: list[Any] = []

    def note(variable: Any) -> None:
        if not any(variable.same_as(known) for known in variables):
            variables.append(variable)

    for parameter in function.params:
        for extent in getattr(parameter.ty, "shape", None) or ():
            tvm_ffi.structural_walk(extent, (tvm.ir.Var, note))
    return variables


def fix_dimensions(
    function: "tvm.tirx.PrimFunc", sizes: Mapping[str, int], names: Collection[str]
) -> "tvm.tirx.PrimFunc":
    """A kernel with some of its dynamic dimensions fixed to their representative sizes."""
    # Loops may have the same names. A dimension that is an argument itself stays dynamic.
    dimensions = [
        variable
        for name, variable in dynamic_dimensions(function).items()
        if name in names and not any(variable.same_as(parameter) for parameter in function.params)
    ]

    def fix(variable: Any) -> Any:
        if not any(variable.same_as(dimension) for dimension in dimensions):
            return variable
        return tvm.tirx.const(sizes.get(str(variable.name), TYPICAL_EXTENT), variable.ty.dtype)

    return tvm_ffi.structural_map(function, (tvm.ir.Var, fix))
