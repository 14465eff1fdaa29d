"""What of a network is computed or held in integers, and what is not and why, in one line for people."""

from collections.abc import Iterable
from typing import Any

from tvmake.ir.expressions import bindings, is_call, operator_name
from tvmake.quantize.integers.affine import SMALL, Affine, affine
from tvmake.quantize.integers.products import CONVOLUTIONS

COVERAGE = "tvmake.integer_coverage"
"""Attribute of a module: that line."""


def kept_in_float(kept: Iterable[tuple[str, str, str]]) -> str:
    """The end of the line: what stays in float, from operator, name and reason of each; nothing where all are integers."""
    reasons: dict[str, list[str]] = {}
    for operator, name, reason in kept:
        reasons.setdefault(reason, []).append(f"{operator} '{name}'")
    named = "; ".join(f"{', '.join(names)} because {reason}" for reason, names in reasons.items())
    return f"; kept in float: {named}" if named else ""


def source_coverage(before: Any, after: Any) -> str:
    """The line of a network that its source quantised.

    Args:
        before: as it was imported.
        after: with its products in integers, as far as they can be, and what else is dequantised still called so.
    """
    total = len(_products(before))
    made = {binding.var: binding.value for binding in bindings(after["main"])}
    kept = [
        (operator_name(call), name, _reason(*(_integers(value, made) for value in call.args[:2])))
        for name, call in _products(after)
        if str(call.ty.dtype) != "int32"
    ]
    line = f"source: {total - len(kept)} of {total} convolutions and matmuls use integers"
    return f"{line}{kept_in_float(kept)}"


def _products(module: Any) -> list[tuple[str, Any]]:
    """Name and call of each convolution and product."""
    return [
        (str(binding.var.name), binding.value)
        for binding in bindings(module["main"])
        if is_call(getattr(binding, "value", None), "matmul", *CONVOLUTIONS)
    ]


def _integers(value: Any, made: dict[Any, Any]) -> Affine | None:
    call = made.get(value, value)
    return affine(call) if is_call(call, "dequantize") else None


def _reason(left: Affine | None, right: Affine | None) -> str:
    if left is None or right is None:
        operand = "its operands are" if left is right else "its input is" if left is None else "its second operand is"
        return f"{operand} float in the source"
    if wide := next((side.dtype for side in (left, right) if side.dtype not in SMALL), None):
        return f"an operand of it is {wide} in the source"
    return "the source's scales or zero points have no form in integers"
