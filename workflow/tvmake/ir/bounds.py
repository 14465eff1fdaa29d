"""Bounds of dynamic dimensions: attributes of ``main`` with which TVM plans memory and proves guards."""

from collections.abc import Mapping

import tvm

from tvmake.ir.rewriting import with_functions

LOWER = "tir_var_lower_bound"
UPPER = "tir_var_upper_bound"
"""Mappings from the name of a dimension to its bound."""


def bounds_of(module: "tvm.IRModule") -> dict[str, tuple[int, int | None]]:
    """Return the smallest and largest sizes of ``main``'s bounded dynamic dimensions, by name."""
    return bounds_of_function(module["main"])


def bounds_of_function(function: "tvm.relax.Function") -> dict[str, tuple[int, int | None]]:
    """Return the smallest and largest sizes of a function's bounded dynamic dimensions, by name."""
    attributes = function.attrs or {}
    lower, upper = (
        {str(name): int(size) for name, size in (attributes.get(key) or {}).items()} for key in (LOWER, UPPER)
    )
    symbols = (
        {str(symbol.name) for symbol in tvm.relax.analysis.defined_symbolic_vars(function)} if lower or upper else ()
    )
    return {name: (lower.get(name, 0), upper.get(name)) for name in sorted({*lower, *upper} & {*symbols})}


def with_bounds(module: "tvm.IRModule", bounds: Mapping[str, tuple[int, int | None]]) -> "tvm.IRModule":
    """Return the module with ``main``'s bounds replaced."""
    lower = {name: least for name, (least, _) in bounds.items()}
    upper = {name: most for name, (_, most) in bounds.items() if most is not None}
    main = module["main"]
    for key, sizes in ((LOWER, lower), (UPPER, upper)):
        if sizes:
            main = main.with_attr(key, sizes)
        elif key in (main.attrs or {}):
            main = main.without_attr(key)
    if main.same_as(module["main"]):
        return module
    return with_functions(module, {"main": main})
