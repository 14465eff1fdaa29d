"""Representative sizes of dynamic dimensions for estimates of work: the middle of their bounds, or a typical size."""

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.bounds import LOWER, UPPER
from tvmake.ir.dimensions import TYPICAL_EXTENT


def representative_sizes(module: "tvm.IRModule") -> dict[str, int]:
    """A size for each dynamic dimension of the functions' arguments, by name; kernels keep these names."""
    functions = [function for _, function in module.functions_items() if isinstance(function, tvm.relax.Function)]
    return {name: size for function in functions for name, size in _representative_sizes(function).items()}


def _representative_sizes(function: "tvm.relax.Function") -> dict[str, int]:
    lower, upper = ((function.attrs or {}).get(key) or {} for key in (LOWER, UPPER))
    names = [str(symbol.name) for symbol in tvm.relax.analysis.defined_symbolic_vars(function)]
    return {
        name: (int(lower.get(name, 1)) + int(upper[name])) // 2
        if name in upper
        else max(TYPICAL_EXTENT, int(lower.get(name, 1)))
        for name in names
    }


def evaluate_extent(extent: Any, sizes: Mapping[str, int]) -> int:
    """A kernel's extent for given sizes; at least 1, which also represents data-dependent extents."""

    def fix(variable: Any) -> Any:
        name = str(variable.name)
        return tvm.tirx.const(sizes[name], variable.ty.dtype) if name in sizes else variable

    fixed = tvm.sym.Analyzer().simplify(tvm_ffi.structural_map(extent, (tvm.ir.Var, fix)))
    return max(1, int(fixed)) if isinstance(fixed, tvm.tirx.IntImm) else 1


def shape_at(parameter: "tvm.tirx.Var", sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a kernel's argument for given sizes."""
    return tuple(evaluate_extent(extent, sizes) for extent in parameter.ty.shape)
