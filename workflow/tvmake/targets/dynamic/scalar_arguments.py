"""Pass all dimensions other than those of tensors to fused functions in one argument.

Repair: `scalars-beside-shapes`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm

from tvmake.ir.rewriting import rewritten

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


@tvm.transform.module_pass(opt_level=0, name="PassScalarsInShapes")
def pass_scalars_in_shapes(module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
    """Move scalars into the shape argument of fused functions that have one. Runs between FuseOps and FuseTIR."""
    affected = {name: function for name, function in module.functions_items() if _has_scalars_beside_shapes(function)}
    if not affected:
        return module
    others = {name: function for name, function in module.functions_items() if name not in affected}
    module = tvm.IRModule(others, attrs=module.attrs, global_infos=module.global_infos)
    return rewritten(module, _ScalarArgumentMutator(module, affected))


def _has_scalars_beside_shapes(function: Any) -> bool:
    if not isinstance(function, relax.Function) or "Primitive" not in (function.attrs or {}):
        return False
    kinds = {type(parameter.ty) for parameter in function.params}
    return {relax.ShapeType, tvm.ir.PrimType} <= kinds


def _split(values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The tensors among arguments or parameters, and the dimensions."""
    tensors, dimensions = [], []
    for value in values:
        if isinstance(value.ty, relax.ShapeType):
            dimensions += list(value.ty.values)
        elif isinstance(value.ty, tvm.ir.PrimType):
            dimensions.append(value)
        else:
            tensors.append(value)
    return tensors, dimensions


def _with_scalars_in_shape(function: Any) -> Any:
    tensors, dimensions = _split(function.params)
    shape = relax.Var("dimensions", relax.ShapeType(dimensions))
    return relax.Function([*tensors, shape], function.body, function.ret_ty, function.is_pure, function.attrs)


@mutator
class _ScalarArgumentMutator(PyExprMutator):
    """Passes scalars to some functions in their shape argument."""

    def __init__(self, module: "tvm.IRModule", functions: Mapping[Any, Any]):
        super().__init__(module)
        self.changed = {
            name: self.builder_.add_func(_with_scalars_in_shape(function), str(name.name_hint))
            for name, function in functions.items()
        }

    def visit_call_(self, op: Any) -> Any:
        if op.op not in self.changed:
            return self.visit_expr_post_order(op)
        tensors, dimensions = _split([self.visit_expr(argument) for argument in op.args])
        return relax.Call(self.changed[op.op], [*tensors, relax.ShapeExpr(dimensions)], op.attrs, op.ty_args)
