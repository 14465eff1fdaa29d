"""Keep kernels that read backwards out of fusion.

Repair: `floor-division-below-zero`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.rewriting import with_functions

OPAQUE = 8
"""TVM's kOpaque (include/tvm/relax/op_attr_types.h): FuseOps does not fuse such kernels."""


@tvm.transform.module_pass(opt_level=0, name="NoFuseReverse")
def mark_reversed_reads(module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
    """Mark kernels that read an axis backwards, so that nothing is fused with them. After AnnotateTIROpPattern."""
    return with_functions(
        module,
        {
            symbol: func.with_attr("op_pattern", OPAQUE)
            for symbol, func in module.functions_items()
            if isinstance(func, tvm.tirx.PrimFunc) and _reads_backwards(func)
        },
    )


def _reads_backwards(func: Any) -> bool:
    """Whether an index is a constant minus a variable: flips, and slices with negative steps."""
    reversed_indices: list[Any] = []

    def read(load: Any) -> None:
        for index in load.indices:
            if isinstance(index, tvm.tirx.Sub) and isinstance(index.b, tvm.ir.Var):
                reversed_indices.append(index)
            tvm_ffi.structural_walk(
                index, (tvm.tirx.Mul, lambda node: reversed_indices.append(node) if _is_negative(node.b) else None)
            )

    tvm_ffi.structural_walk(func.body, (tvm.ir.expr.TensorLoad, read))
    return bool(reversed_indices)


def _is_negative(value: Any) -> bool:
    return isinstance(value, tvm.tirx.IntImm) and int(value) < 0
