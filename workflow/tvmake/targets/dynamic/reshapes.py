"""Reshape tensors with dynamic dimensions by kernels that can be fused with others.

Dimensions are split and joined in groups: from [1, 96, height, width] to [1, 24, 2, 2, height, width], only 96 is
divided. Repair: `dynamic-reshapes`.
"""

import itertools
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import tvm
from tvm import te

from tvmake.ir.expressions import is_call
from tvmake.ir.rewriting import rewritten

from tvm import relax, tirx  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip


MOVES_NOTHING = "tvmake.reshape"
"""Attribute of a reshape kernel; fusion with other kernels removes it."""


class Group(NamedTuple):
    """Indices of adjacent axes before and after a reshape, with equal numbers of elements."""

    before: list[int]
    after: list[int]


def legalize_reshape(builder: "relax.BlockBuilder", call: "relax.Call") -> Any:
    """A kernel that divides within groups of axes; TVM's kernel if all dimensions are static, or groups are unknown."""
    shape, target = list(call.args[0].ty.shape), list(call.ty.shape)
    is_dynamic = any(not isinstance(size, tirx.IntImm) for size in [*shape, *target])
    groups = reshape_groups(shape, target) if is_dynamic else None
    if groups is None:
        return tvm.ir.Op.get("relax.reshape").get_attr("FLegalize")(builder, call)

    def reshape(data: Any) -> Any:
        def read(*indices: Any) -> Any:
            positions: dict[int, Any] = {}
            for group in groups:
                flat = _flat_index([(indices[axis], target[axis]) for axis in group.after])
                positions |= zip(group.before, _split_index(flat, [shape[axis] for axis in group.before]), strict=True)
            return data(*(positions.get(axis, 0) for axis in range(len(shape))))

        return te.compute(target, read, name="T_reshape")

    attributes = {MOVES_NOTHING: True}
    return builder.call_te(reshape, call.args[0], primfunc_name_hint="reshape", primfunc_attrs=attributes)


@tvm.transform.module_pass(opt_level=0, name="ViewReshapes")
def replace_reshapes_by_views(module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
    """Turn reshapes that were not fused into views, as TVM's RewriteDataflowReshape does for its own kernels."""
    kernels = {
        str(variable.name_hint)
        for variable, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc) and (function.attrs or {}).get(MOVES_NOTHING)
    }
    return rewritten(module, _ReshapeViewer(module, kernels)) if kernels else module


@mutator
class _ReshapeViewer(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", kernels: Collection[str]):
        super().__init__(module)
        self._kernels = kernels

    def visit_var_binding_(self, binding: Any) -> None:
        value = binding.value
        is_inner = isinstance(binding.var, relax.DataflowVar)
        if not is_inner or not is_call(value, "call_tir") or str(value.args[0].name_hint) not in self._kernels:
            super().visit_var_binding_(binding)
            return
        source = self.visit_expr(value.args[1].fields[0])
        view = self.builder_.emit(relax.op.reshape(source, relax.ShapeExpr(list(binding.var.ty.shape))))
        self.set_var_remap(binding.var, view)


RESHAPES = {"relax.reshape": legalize_reshape}


def reshape_groups(shape: Sequence[Any], target: Sequence[Any]) -> list[Group] | None:
    """How axes are split and joined, without axes of size 1; None if unknown."""
    before, after = (_axes(sizes) for sizes in (shape, target))
    groups = []
    while before and after:
        group = _first_group(shape, before, target, after)
        if group is None:
            return None
        groups.append(group)
        before, after = before[len(group.before) :], after[len(group.after) :]
    return groups if not before and not after else None


def _first_group(
    shape: Sequence[Any], before: Sequence[int], target: Sequence[Any], after: Sequence[int]
) -> Group | None:
    """The shortest leading group with equal numbers of elements before and after."""
    analyzer = tvm.sym.Analyzer()
    lengths = itertools.product(range(1, len(before) + 1), range(1, len(after) + 1))
    for first, second in sorted(lengths, key=sum):
        group = Group(list(before[:first]), list(after[:second]))
        if analyzer.can_prove_equal(_count(shape, group.before), _count(target, group.after)):
            return group
    return None


def _axes(sizes: Sequence[Any]) -> list[int]:
    return [axis for axis, size in enumerate(sizes) if not (isinstance(size, tirx.IntImm) and int(size) == 1)]


def _count(sizes: Sequence[Any], axes: Sequence[int]) -> Any:
    count = tirx.IntImm("int64", 1)
    for axis in axes:
        count = count * sizes[axis]
    return count


def _flat_index(pairs: Sequence[tuple[Any, Any]]) -> Any:
    """The flat index within a group, from the indices along its axes and their sizes."""
    (flat, _), *rest = pairs
    for index, size in rest:
        flat = flat * size + index
    return flat


def _split_index(flat: Any, sizes: Sequence[Any]) -> list[Any]:
    """The indices along a group's axes."""
    indices: list[Any] = []
    for size in reversed(sizes[1:]):
        indices.append(tirx.floormod(flat, size))
        flat = tirx.floordiv(flat, size)
    return [flat, *reversed(indices)]
