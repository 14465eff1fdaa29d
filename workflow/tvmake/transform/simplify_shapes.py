"""Simplify dynamic shapes.

Repair: `unequal-shapes-in-fusion`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import rewrite_calls, rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


def simplify_shapes(module: "tvm.IRModule") -> "tvm.IRModule":
    """Simplify the shapes of all tensors if ``main`` has dynamic dimensions."""
    if not relax.analysis.defined_symbolic_vars(module["main"]):
        return module
    return rewritten(module, _ShapeSimplifier(module))


def read_sizes_directly(module: "tvm.IRModule") -> "tvm.IRModule":
    """Read sizes from tensors into the network's own dimensions.

    ``DecomposeOpsForInference`` would read them into dimensions of its own. Repair: `sizes-in-slice-bounds`.
    """
    return rewrite_calls(module, _read_size)


def _read_size(_visitor: Any, _op: Any, call: Any) -> Any:
    return (
        relax.op.call_pure_packed(READ_SIZES, *call.args, ty_args=call.ty) if is_call(call, "tensor_to_shape") else call
    )


READ_SIZES = "vm.builtin.tensor_to_shape"
"""The virtual machine's function."""


@mutator
class _ShapeSimplifier(PyExprMutator):
    def __init__(self, module: "tvm.IRModule"):
        super().__init__(module)
        self._analyzer = tvm.sym.Analyzer()

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        value = self.builder_.normalize(self.visit_expr(binding.value))
        variable, simple = binding.var, self._simplify(value.ty)
        if not tvm_ffi.structural_equal(variable.ty, simple):
            variable = type(variable)(variable.name, simple)
            self.set_var_remap(binding.var, variable)
        self.builder_.emit_normalized(relax.VarBinding(variable, value))

    def _simplify(self, kind: Any) -> Any:
        if not isinstance(kind, relax.TensorType) or not isinstance(kind.shape, relax.ShapeExpr):
            return kind
        shape = relax.ShapeExpr([self._analyzer.simplify(dimension) for dimension in kind.shape.values])
        return relax.TensorType(shape, kind.dtype, kind.vdevice)
