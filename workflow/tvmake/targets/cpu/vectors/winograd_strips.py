"""Loops over a strip of Winograd's tiles whose number is dynamic, without the case that there are none.

Loops begin at 0, where nothing has to be guarded: an empty strip has no steps. Repair: `compute-at-empty-strips`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.cpu.winograd import is_winograd

from tvm import tirx  # isort: skip


@tirx.transform.prim_func_pass(opt_level=0, name="WinogradStrips")
class WinogradStrips:
    """Begin loops over tiles with the first one."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """A kernel of Winograd's with simpler loops; any other unchanged."""
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
    """A number of tiles as ``(size + 3) // 4``, which is written ``(size - 1) // 4 + 1``, too: sizes have to be the same to be compared."""
    total, divisor = quotient.a, quotient.b
    if isinstance(total, tirx.Sub) and isinstance(total.b, tirx.IntImm) and isinstance(divisor, tirx.IntImm):
        return tirx.floordiv(total.a + (int(divisor) - int(total.b)), divisor) - 1
    return quotient
