"""Describe, in one line, how much of a network uses integers, and the reasons for the rest."""

from collections.abc import Iterable
from typing import Any

from tvmake.ir.expressions import bindings, is_call, operator_name
from tvmake.quantize.integers.affine import SMALL, Affine, affine
from tvmake.quantize.integers.products import CONVOLUTIONS

COVERAGE = "tvmake.integer_coverage"
"""Module attribute with this line."""


def kept_in_float(kept: Iterable[tuple[str, str, str]]) -> str:
    """Return the end of the line, from operator, name and reason of each call in float; empty if there is none."""
    reasons: dict[str, list[str]] = {}
    for operator, name, reason in kept:
        reasons.setdefault(reason, []).append(f"{operator} '{name}'")
    named = "; ".join(f"{', '.join(names)} because {reason}" for reason, names in reasons.items())
    return f"; kept in float: {named}" if named else ""


def source_coverage(before: Any, after: Any) -> str:
    """Return the line for a network that its source quantised.

    Args:
        before: the imported network.
        after: the network with integer products; other dequantisations are still calls.
    """
    total = len(_products(before))
    definitions = {binding.var: binding.value for binding in bindings(after["main"])}
    kept = [
        (operator_name(call), name, _reason(*(_integers(value, definitions) for value in call.args[:2])))
        for name, call in _products(after)
        if str(call.ty.dtype) != "int32"
    ]
    line = f"source: {total - len(kept)} of {total} convolutions and matmuls use integers"
    return f"{line}{kept_in_float(kept)}"


def _products(module: Any) -> list[tuple[str, Any]]:
    """Return name and call of each convolution and matmul."""
    return [
        (str(binding.var.name), binding.value)
        for binding in bindings(module["main"])
        if is_call(getattr(binding, "value", None), "matmul", *CONVOLUTIONS)
    ]


def _integers(value: Any, definitions: dict[Any, Any]) -> Affine | None:
    call = definitions.get(value, value)
    return affine(call) if is_call(call, "dequantize") else None


def _reason(left: Affine | None, right: Affine | None) -> str:
    if left is None or right is None:
        operand = "its operands are" if left is right else "its input is" if left is None else "its second operand is"
        return f"{operand} float in the source"
    if wide := next((side.dtype for side in (left, right) if side.dtype not in SMALL), None):
        return f"an operand of it is {wide} in the source"
    return "the source's scales or zero points have no form in integers"
