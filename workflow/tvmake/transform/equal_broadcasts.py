"""Remove broadcasts to the dynamic shape that a tensor already has.

TVM's PyTorch importer broadcasts both operands of a matmul. It recognises equal constant dimensions, but not equal dynamic
ones, and then copies each operand.
"""

from typing import Any

import tvm

from tvmake.ir.dimensions import is_known
from tvmake.ir.expressions import extents, is_call, same_extents
from tvmake.ir.rewriting import rewrite_calls


def drop_equal_broadcasts(module: "tvm.IRModule") -> "tvm.IRModule":
    """Remove broadcasts to the same dynamic shape."""
    return rewrite_calls(module, _drop_equal_broadcast) if _has_dynamic_shapes(module) else module


def _has_dynamic_shapes(module: "tvm.IRModule") -> bool:
    return bool(tvm.relax.analysis.defined_symbolic_vars(module["main"]))


def _drop_equal_broadcast(visitor: Any, op: Any, call: Any) -> Any:
    shape = extents(op)
    if not is_call(call, "broadcast_to") or all(map(is_known, shape)):
        return call
    return call.args[0] if same_extents(extents(call.args[0]), shape) else call
