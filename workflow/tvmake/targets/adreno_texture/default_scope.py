"""Give tensors without a memory scope the scope of buffers.

Repair: `adreno-views-without-scope`.
"""

from typing import Any

import tvm

from tvmake.targets.adreno_texture.buffers import rewrite_with_buffers, store_results_in

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


def to_default_scope(module: "tvm.IRModule") -> "tvm.IRModule":
    """The network with a scope for each result; unchanged if no tensor has a scope."""
    return rewrite_with_buffers(module, _DefaultScopeMutator)


def _has_no_memory(ty: Any) -> bool:
    return ty.vdevice is None and ty.shape is not None


@mutator
class _DefaultScopeMutator(PyExprMutator):
    """Rewrites calls of kernels.

    Args:
        device: the buffer device.
    """

    def __init__(self, module: "tvm.IRModule", device: "relax.VDevice"):
        super().__init__(module)
        self.device = device

    def visit_call_(self, op: Any) -> Any:
        """A call whose results all have a scope; any other call unchanged."""
        return store_results_in(self.visit_expr_post_order(op), self.device, _has_no_memory)
