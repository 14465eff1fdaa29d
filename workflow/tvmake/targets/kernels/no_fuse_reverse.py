"""Keep kernels that read backwards out of fusion.

TVM 0.27 simplifies memory offsets by an algebra of divisions that rounds wrongly below zero (``arith.IterMapSimplify``, in FlattenBuffer): if a
reversal is fused with a reshape, ``(7 - i) // 4 * 4 + (7 - i) % 4`` becomes ``4 - i``. Remove when
tests/targets/kernels/test_no_fuse_reverse.py::test_tvm_still_divides_places_below_zero_wrongly fails.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.rewriting import with_functions

OPAQUE = 8
"""TVM's kOpaque (include/tvm/relax/op_attr_types.h): FuseOps leaves such a kernel alone."""


@tvm.transform.module_pass(opt_level=0, name="NoFuseReverse")
class NoFuseReverse:
    """Mark kernels that read backwards along an axis, so that nothing is fused with them. After AnnotateTIROpPattern."""

    def transform_module(self, module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
        """The module with such kernels marked."""
        return with_functions(
            module,
            {
                symbol: func.with_attr("op_pattern", OPAQUE)
                for symbol, func in module.functions_items()
                if isinstance(func, tvm.tirx.PrimFunc) and _reads_backwards(func)
            },
        )


def _reads_backwards(func: Any) -> bool:
    """Whether a place is a number less a variable: flips, and slices with negative steps."""
    found: list[Any] = []

    def read(load: Any) -> None:
        for index in load.indices:
            if isinstance(index, tvm.tirx.Sub) and isinstance(index.b, tvm.ir.Var):
                found.append(index)
            tvm_ffi.structural_walk(
                index, (tvm.tirx.Mul, lambda node: found.append(node) if _is_negative(node.b) else None)
            )

    tvm_ffi.structural_walk(func.body, (tvm.ir.expr.TensorLoad, read))
    return bool(found)


def _is_negative(value: Any) -> bool:
    return isinstance(value, tvm.tirx.IntImm) and int(value) < 0
