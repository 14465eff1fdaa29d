"""Compute 16-bit floating-point functions in float32 if code generators lack them.

Repair: `half-functions`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import tvm

from tvmake.ir.expressions import operator_name
from tvmake.targets.affected import is_affected

FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cosh", "hypot", "log1p", "nextafter", "sinh", "tan",
)  # fmt: skip

LEVEL = 100
"""Above the level of TVM's own rules."""

RULE = "default.FLowerIntrinsic"


@cache
def install() -> None:
    """Apply the corrections to this process' kernels."""
    if is_affected():
        for name in FUNCTIONS:
            tvm_rule = tvm.ir.Op.get(f"tirx.{name}").get_attr(RULE)
            tvm.tirx.register_intrin_lowering(f"tirx.{name}", target="default", f=widen_rule(tvm_rule), level=LEVEL)


def widen_rule(tvm_rule: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """A lowering rule that computes 16-bit functions in float32, and applies TVM's rule to others."""

    def rule(call: Any) -> Any:
        dtype = str(call.ty.dtype)
        kind, _, lanes = dtype.partition("x")
        if kind not in ("float16", "bfloat16"):
            return call if tvm_rule is None else tvm_rule(call)
        wide = f"float32{'x' if lanes else ''}{lanes}"
        return getattr(tvm.tirx, operator_name(call).removeprefix("tirx."))(
            *(argument.astype(wide) for argument in call.args)
        ).astype(dtype)

    return rule
