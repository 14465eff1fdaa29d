"""Correct arithmetic on 8-bit and 16-bit integers in kernels of C's dialects.

Each operation states that it computes in 32 bits and converts back. Repair: `narrow-integers`.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name
from tvmake.ir.rewriting import map_body
from tvmake.targets.affected import is_affected

tirx = tvm.tirx

NARROW = ("int8", "uint8", "int16", "uint16")

WIDE = "int32"

ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.LShift)


@tirx.transform.prim_func_pass(opt_level=0, name="NarrowIntegers")
def widen_narrow_integers(func: Any, _module: Any, _context: Any) -> Any:
    """Compute 8-bit and 16-bit arithmetic in 32 bits, and convert each result."""
    if not is_affected():
        return func
    return map_body(func, [(kind, _widen) for kind in ARITHMETIC])


def _widen(node: Any) -> Any:
    dtype = dtype_name(node.ty)
    return type(node)(_to_wide(node.a), _to_wide(node.b)).astype(dtype) if dtype in NARROW else node


def _to_wide(operand: Any) -> Any:
    return tirx.Cast(WIDE, operand)
