"""Checks of the inputs' sizes that a network makes when it begins to run: each a ``match_cast`` of a shape, before all else in ``main``.

What a check reports is stored in an attribute of ``main``. The shape ends with the report's index, by which code generation finds
the report for the error that TVM's virtual machine raises (``tvmake.codegen.size_check_messages``).
"""

from collections.abc import Sequence
from typing import Any

import tvm

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


def _int64(number: int) -> "tvm.tirx.IntImm":
    return tirx.IntImm("int64", number)
