"""Checks of input sizes at the start of ``main``, each a ``match_cast`` of a shape.

An attribute of ``main`` has the messages. The last element of the shape is the index of the message, with which code
generation selects the message for the error of TVM's virtual machine (``tvmake.codegen.lowering``).
"""

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.attributes import SIZE_CHECKS
from tvmake.ir.expressions import bindings

from tvm import relax, tirx  # isort: skip


def with_size_checks(
    function: "relax.Function", checks: Sequence[tuple[Any, Any, str]], casts: Sequence[Any] = (), first: int = 0
) -> "relax.Function":
    """Insert checks at the start of a function.

    Args:
        checks: a size, the required size and the message. ``match_cast`` would define a required size that is a plain
            dimension, so it cannot be one.
        casts: bindings after the checks.
        first: the index of the first message.
    """
    head: list[Any] = []
    for index, (size, required, _) in enumerate(checks, first):
        kind = relax.ShapeType([required, _int64(index)])
        value = relax.ShapeExpr([size, _int64(index)])
        if not isinstance(size, tirx.Var):
            # Bind the expression that a cast reads. Repair: `shape-lowering-of-casts`.
            bound = relax.Var(f"checked_size_{index}", value.ty)
            head.append(relax.VarBinding(bound, value))
            value = bound
        head.append(relax.MatchCast(relax.Var(f"size_check_{index}", kind), value, kind))
    body = relax.SeqExpr([relax.BindingBlock([*head, *casts]), *function.body.blocks], function.body.body)
    changed = relax.Function(function.params, body, function.ret_ty, function.is_pure, function.attrs)
    return changed.with_attr(SIZE_CHECKS, [message for _, _, message in checks])


def add_size_checks(function: "relax.Function", checks: Sequence[tuple[Any, Any, str]]) -> "relax.Function":
    """Insert further checks at the start of a function that may have some (:func:`with_size_checks`)."""
    known = size_reports(function)
    checked = with_size_checks(function, checks, first=len(known))
    return checked.with_attr(SIZE_CHECKS, [*known, *size_reports(checked)])


def size_reports(function: "relax.Function") -> list[str]:
    """Return the messages of a function's checks, in order."""
    return [str(report) for report in (function.attrs or {}).get(SIZE_CHECKS, [])]


def failed_size_check(function: "relax.Function") -> str | None:
    """Return the message of the first check that fails for all sizes of dynamic dimensions; None if there is none."""
    reports = size_reports(function)
    for binding in bindings(function) if reports else ():
        if (values := _checked_values(binding)) is not None:
            size, required = values[0], binding.ty.values[0]
            numbers = [int(extent) for extent in (size, required) if isinstance(extent, tirx.IntImm)]
            if len(set(numbers)) == 2:
                return reports[int(values[1])].format(*numbers)
    return None


def _checked_values(binding: Any) -> Any | None:
    """Return the compared size and the message's index of a check; None for other bindings."""
    if not isinstance(binding, relax.MatchCast) or not isinstance(binding.value.ty, relax.ShapeType):
        return None
    values = binding.value.ty.values
    return values if values is not None and len(values) == 2 else None  # casts of shapes by importers have one size


def stated_types(function: "relax.Function") -> list[Any]:
    """Return the types of a function's results, with checked dimensions instead of the multiples they are equal to."""
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
