"""Checks of the inputs' sizes that a network makes when it begins to run: each a ``match_cast`` of a shape, before all else in ``main``.

What a check reports is stored in an attribute of ``main``. The shape ends with the report's index, by which code generation finds
the report for the error that TVM's virtual machine raises (``tvmake.codegen.size_check_messages``).
"""

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.attributes import SIZE_CHECKS
from tvmake.ir.expressions import bindings

from tvm import relax, tirx  # isort: skip


def with_size_checks(
    function: "relax.Function", checks: Sequence[tuple[Any, Any, str]], casts: Sequence[Any] = ()
) -> "relax.Function":
    """A function that begins with checks.

    Args:
        checks: a size, what it has to be (not a dimension itself, which ``match_cast`` would define), and the report.
        casts: bindings that follow the checks.
    """
    head = []
    for index, (size, wanted, _) in enumerate(checks):
        kind = relax.ShapeType([wanted, _int64(index)])
        head.append(
            relax.MatchCast(relax.Var(f"size_check_{index}", kind), relax.ShapeExpr([size, _int64(index)]), kind)
        )
    body = relax.SeqExpr([relax.BindingBlock([*head, *casts]), *function.body.blocks], function.body.body)
    changed = relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)
    return changed.with_attr(SIZE_CHECKS, [report for _, _, report in checks])


def size_reports(function: "relax.Function") -> list[str]:
    """What the checks of a function report, in order."""
    return [str(report) for report in (function.attrs or {}).get(SIZE_CHECKS, [])]


def failed_size_check(function: "relax.Function") -> str | None:
    """The report of the first check that fails whatever the sizes of dynamic dimensions are; None where there is none."""
    reports = size_reports(function)
    for binding in bindings(function) if reports else ():
        if _is_size_check(binding):
            size, wanted = binding.value.values[0], binding.ty.values[0]
            numbers = [int(extent) for extent in (size, wanted) if isinstance(extent, tirx.IntImm)]
            if len(set(numbers)) == 2:
                return reports[int(binding.value.values[1])].format(*numbers)
    return None


def _is_size_check(binding: Any) -> bool:
    is_cast_shape = isinstance(binding, relax.MatchCast) and isinstance(binding.value, relax.ShapeExpr)
    return is_cast_shape and len(binding.value.values) == 2  # importers' own casts of shapes have one size


def stated_types(function: "relax.Function") -> list[Any]:
    """The types of a function's results, in which no dimension is written as the multiple that it is checked to be."""
    returned = function.ret_ty
    types = list(returned.fields) if isinstance(returned, relax.TupleType) else [returned]
    multiples = [
        (binding.ty.values[0], size)
        for binding in (bindings(function) if size_reports(function) else ())
        if _is_size_check(binding) and isinstance(size := binding.value.values[0], tirx.Var)
    ]
    if not multiples:
        return types
    return [
        relax.TensorType([_stated_size(size, multiples) for size in kind.shape.values], kind.dtype)
        if isinstance(kind, relax.TensorType) and isinstance(kind.shape, relax.ShapeExpr)
        else kind
        for kind in types
    ]


def _stated_size(size: Any, multiples: Sequence[tuple[Any, Any]]) -> Any:
    simple = tvm.sym.Analyzer().simplify(size)
    return next((dimension for multiple, dimension in multiples if tvm_ffi.structural_equal(simple, multiple)), simple)


def _int64(number: int) -> "tvm.tirx.IntImm":
    return tirx.IntImm("int64", number)
