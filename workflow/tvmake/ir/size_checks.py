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
    head: list[Any] = []
    for index, (size, wanted, _) in enumerate(checks):
        kind = relax.ShapeType([wanted, _int64(index)])
        value = relax.ShapeExpr([size, _int64(index)])
        if not isinstance(size, tirx.Var):
            # An expression that a cast reads is bound by itself. Repair: `shape-lowering-of-casts`.
            bound = relax.Var(f"checked_size_{index}", value.ty)
            head.append(relax.VarBinding(bound, value))
            value = bound
        head.append(relax.MatchCast(relax.Var(f"size_check_{index}", kind), value, kind))
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
        if (values := _checked_values(binding)) is not None:
            size, wanted = values[0], binding.ty.values[0]
            numbers = [int(extent) for extent in (size, wanted) if isinstance(extent, tirx.IntImm)]
            if len(set(numbers)) == 2:
                return reports[int(values[1])].format(*numbers)
    return None


def _checked_values(binding: Any) -> Any | None:
    """The size that a check compares, and the report's index; None for what is not a check."""
    if not isinstance(binding, relax.MatchCast) or not isinstance(binding.value.ty, relax.ShapeType):
        return None
    values = binding.value.ty.values
    return values if values is not None and len(values) == 2 else None  # importers' own casts of shapes have one size


def stated_types(function: "relax.Function") -> list[Any]:
    """The types of a function's results, in which no dimension is written as the multiple that it is checked to be."""
    returned = function.ret_ty
    types = list(returned.fields) if isinstance(returned, relax.TupleType) else [returned]
    multiples = [
        (binding.ty.values[0], size)
        for binding in (bindings(function) if size_reports(function) else ())
        if (values := _checked_values(binding)) is not None and isinstance(size := values[0], tirx.Var)
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
