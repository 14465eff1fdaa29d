"""Simplify loops over a dynamic number of Winograd tiles by assuming that there is at least one tile.

Loops start at 0, so nothing needs a guard: an empty strip has no steps. Repair: `compute-at-empty-strips`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.cpu.winograd import is_winograd

from tvm import tirx  # isort: skip


@tirx.transform.prim_func_pass(opt_level=0, name="WinogradStrips")
def simplify_winograd_strips(func: Any, _module: Any, _context: Any) -> Any:
    """Start loops over tiles with the first tile."""
    dimensions = {
        dimension
        for parameter in func.params
        for dimension in getattr(parameter.ty, "shape", ())
        if isinstance(dimension, tvm.ir.Var)
    }
    if not dimensions or not is_winograd(func):
        return func
    analyzer = tvm.sym.Analyzer()
    for dimension in dimensions:
        analyzer.update(dimension, tvm.sym.ConstIntBound(1, tvm.sym.ConstIntBound.POS_INF))

    def simplify(bound: Any) -> Any:
        is_integer = str(bound.ty.dtype) in ("int32", "int64")
        simple = analyzer.simplify(bound) if is_integer else bound
        return bound if isinstance(simple, tirx.Min | tirx.Max) else simple

    body = tvm_ffi.structural_map(func.body, ((tirx.Min, tirx.Max), simplify), order="pre")
    return func.with_body(tvm_ffi.structural_map(body, (tirx.FloorDiv, _round_up)))


def _round_up(quotient: Any) -> Any:
    """Write ``(size - 1) // 4 + 1`` tiles as ``(size + 3) // 4``, so that TVM can compare sizes."""
    total, divisor = quotient.a, quotient.b
    if isinstance(total, tirx.Sub) and isinstance(total.b, tirx.IntImm) and isinstance(divisor, tirx.IntImm):
        return tirx.floordiv(total.a + (int(divisor) - int(total.b)), divisor) - 1
    return quotient
