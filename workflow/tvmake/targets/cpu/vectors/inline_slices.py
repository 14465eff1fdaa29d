"""Inline splits and slices into the element-wise operators that read them.

A split kernel copies all its results, with an allocation for each. In a recurrent layer that happens once per time
step, because the gates are slices of a matmul's result.
"""

from typing import Any

import tvm

from tvmake.ir.expressions import bindings, is_call, variables
from tvmake.ir.rewriting import definition, rewritten
from tvmake.transform.layouts.transposes import OF_ONE, OF_SEVERAL

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


def inline_slices(module: "tvm.IRModule") -> "tvm.IRModule":
    """Rewrite splits as slices if only element-wise operators read their parts."""
    splits = _splits_to_slice(module["main"])
    if not splits:
        return module
    return relax.transform.DeadCodeElimination()(rewritten(module, _SliceInliner(module, splits)))


def _splits_to_slice(function: Any) -> set[Any]:
    """The variables of the splits whose parts all go to element-wise operators."""
    splits: set[Any] = set()
    part_of: dict[Any, Any] = {}
    copied: set[Any] = set()
    """Splits that must stay."""
    for binding in bindings(function):
        value = binding.value
        if isinstance(value, relax.If):
            return set()
        if is_call(value, "split") and _has_fixed_parts(value):
            splits.add(binding.var)
        elif isinstance(value, relax.TupleGetItem) and value.tuple_value in splits:
            part_of[binding.var] = value.tuple_value
        elif not is_call(value, *OF_ONE, *OF_SEVERAL):
            copied |= {part_of.get(used, used) for used in variables(value)}
    copied |= {part_of.get(used, used) for used in variables(function.body.body)}
    return splits - copied


def _has_fixed_parts(split: Any) -> bool:
    """Whether the lengths of a split's parts are static; its other dimensions may be dynamic."""
    if not isinstance(split.ty, relax.TupleType):
        return False  # a single part
    shapes = [part.shape for part in split.ty.fields]
    return all(shape is not None and isinstance(shape[int(split.attrs.axis)], tvm.tirx.IntImm) for shape in shapes)


@mutator
class _SliceInliner(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", splits: set[Any]):
        super().__init__(module)
        self._splits = splits

    def visit_tuple_getitem_(self, op: Any) -> Any:
        if op.tuple_value not in self._splits:
            return super().visit_tuple_getitem_(op)
        split = definition(self, self.visit_expr(op.tuple_value))
        axis = int(split.attrs.axis) % len(split.args[0].ty.shape)
        lengths = [int(part.shape[axis]) for part in split.ty.fields]
        begin = sum(lengths[: int(op.index)])
        end = begin + lengths[int(op.index)]
        return self.builder_.normalize(relax.op.strided_slice(split.args[0], [axis], [begin], [end]))
