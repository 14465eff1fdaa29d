"""Run TVM's ToMixedPrecision, with the calls that it fails at hidden during the pass.

The pass leaves calls of unknown functions unchanged, so such calls are placeholders.
Repair: `mixed-precision-arguments`.
"""

from typing import Any

import tvm

from tvmake.ir.rewriting import rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

ALWAYS, FOLLOW, NEVER = 0, 1, 2
"""The policy values of ``TMixedPrecisionPolicy`` (include/tvm/relax/op_attr_types.h)."""

POLICY = "TMixedPrecisionPolicy"

STAND_IN = "tvmake.stand_in"


def to_mixed_precision(module: "tvm.IRModule", accumulator: str) -> "tvm.IRModule":
    """Convert a module of dataflow blocks to float16 by the operators' policies; matmuls accumulate in ``accumulator``."""
    hidden: list[relax.Call] = []
    module = rewritten(module, _OperatorHider(module, hidden))
    module = relax.transform.ToMixedPrecision(accumulator)(module)
    return rewritten(module, _OperatorRestorer(module, hidden))


@mutator
class _OperatorHider(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", hidden: list[relax.Call]) -> None:
        super().__init__(module)
        self.hidden = hidden

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if not _keeps_types(call) or all(_is_known(argument) for argument in call.args):
            return call
        self.hidden.append(call)
        tensors = [argument for argument in call.args if _is_known(argument)]
        return relax.Call(relax.ExternFunc(f"{STAND_IN}.{len(self.hidden) - 1}"), tensors, ty_args=[op.ty])

    def visit_generic_const_(self, op: Any) -> relax.Expr:
        if not isinstance(op.ty, relax.TensorType) or 0 not in op.value.shape:
            return op
        return self.builder_.emit(relax.op.zeros(op.value.shape, op.ty.dtype))

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.BindingBlock:
        self.builder_._begin_dataflow_block()
        for binding in block.bindings:
            if isinstance(binding.var, relax.DataflowVar) or not isinstance(binding.value, relax.TupleGetItem):
                self.visit_binding(binding)
            else:
                part = self.builder_.emit(self.visit_expr(binding.value))
                self.set_var_remap(binding.var, self.builder_.emit_output(part))
        return self.builder_._end_block()


@mutator
class _OperatorRestorer(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", hidden: list[relax.Call]) -> None:
        super().__init__(module)
        self.hidden = hidden

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        if not (isinstance(call.op, relax.ExternFunc) and call.op.global_symbol.startswith(STAND_IN)):
            return call
        original = self.hidden[int(call.op.global_symbol.rpartition(".")[2])]
        tensors = iter(call.args)
        arguments = [next(tensors) if _is_known(argument) else argument for argument in original.args]
        return relax.Call(original.op, arguments, original.attrs, original.ty_args)


def _keeps_types(call: relax.Call) -> bool:
    """Whether the pass keeps the dtypes of a call."""
    return isinstance(call.op, tvm.ir.Op) and call.op.get_attr(POLICY) in (None, NEVER)


def _is_known(argument: Any) -> bool:
    """Whether the pass supports an argument of this type: tensors, tuples of tensors, and shapes."""
    kind = argument.ty
    if isinstance(kind, relax.TupleType):
        return all(isinstance(field, relax.TensorType) for field in kind.fields)
    return isinstance(kind, relax.TensorType | relax.ShapeType)
