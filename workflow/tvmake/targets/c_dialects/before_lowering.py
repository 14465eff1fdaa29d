"""The passes that rewrite wrongly generated code before TVM lowers it.

Repair: `narrow-integers`.
"""

from collections.abc import Sequence
from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name
from tvmake.ir.rewriting import map_body
from tvmake.targets.affected import is_affected
from tvmake.targets.c_dialects.unroll_vectors import unroll_gathered_bytes
from tvmake.targets.kernel_pipeline import KernelPipeline
from tvmake.targets.numbers.bfloat16 import round_to_bfloat16
from tvmake.targets.numbers.extreme_infinities import start_from_infinities
from tvmake.targets.passes import Pass

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


BEFORE = (widen_narrow_integers, unroll_gathered_bytes, round_to_bfloat16, start_from_infinities)
"""Passes for every dialect: for integers of 8 and 16 bits, for bfloat16, and for extrema."""


def lower_dialect(name: str, unrolling: Pass, device: Sequence[Pass] = ()) -> KernelPipeline:
    """The pipeline for a dialect of C.

    Args:
        unrolling: the pass for the dialect's boolean vectors.
        device: passes for the device's functions when they are lowered.
    """
    return KernelPipeline(name, [*BEFORE, unrolling], (), device) if is_affected() else KernelPipeline()
