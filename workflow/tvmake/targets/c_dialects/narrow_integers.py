"""Arithmetic on integers of 8 and 16 bits in kernels of C's dialects.

C computes them in ``int``. TVM 0.27's code generators write ``(a * b) / c`` for bytes as it stands, so that the product does not wrap as on
a processor, and functions meet an ``int`` beside a ``char``: OpenCL's compilers refuse ``select(a - 1, a, …)`` as ambiguous, which every
floor division ends in. Here each operation says that it computes in 32 bits and converts back. Remove when
tests/targets/c_dialects/test_narrow_integers.py::test_tvm_still_leaves_the_width_to_c fails.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.targets.affected import is_affected

tirx = tvm.tirx

RELEASES = "<0.28"

NARROW = ("int8", "uint8", "int16", "uint16")

WIDE = "int32"

ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.LShift)


@tirx.transform.prim_func_pass(opt_level=0, name="NarrowIntegers")
class NarrowIntegers:
    """Compute them in 32 bits, and convert each result."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such arithmetic; one without any as it is."""
        if not is_affected(RELEASES):
            return func
        body = tvm_ffi.structural_map(func.body, [(kind, _widened) for kind in ARITHMETIC])
        return func if body.same_as(func.body) else func.with_body(body)


def _widened(node: Any) -> Any:
    dtype = dtype_name(node.ty)
    return type(node)(_wide(node.a), _wide(node.b)).astype(dtype) if dtype in NARROW else node


def _wide(operand: Any) -> Any:
    return tirx.Cast(WIDE, operand)
