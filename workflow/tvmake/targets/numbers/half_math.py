"""Functions of numbers in 16 bits that code generators have in 32 bits alone.

They are computed in float32. Repair: `half-functions`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import tvm

from tvmake.ir.expressions import operator_name
from tvmake.targets.affected import is_affected

RELEASES = "<0.28"

FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cosh", "hypot", "log1p", "nextafter", "sinh", "tan",
)  # fmt: skip

LEVEL = 100
"""Above TVM's own rules."""

RULE = "default.FLowerIntrinsic"


@cache
def install() -> None:
    """Have kernels of this process compute so."""
    if is_affected(RELEASES):
        for name in FUNCTIONS:
            tvm_rule = tvm.ir.Op.get(f"tirx.{name}").get_attr(RULE)
            tvm.tirx.register_intrin_lowering(f"tirx.{name}", target="default", f=widened(tvm_rule), level=LEVEL)


def widened(tvm_rule: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """A rule that computes a function of 16 bits in float32, and leaves others to TVM's rule."""

    def rule(call: Any) -> Any:
        dtype = str(call.ty.dtype)
        kind, _, lanes = dtype.partition("x")
        if kind not in ("float16", "bfloat16"):
            return call if tvm_rule is None else tvm_rule(call)
        wide = f"float32{'x' if lanes else ''}{lanes}"
        return getattr(tvm.tirx, operator_name(call).removeprefix("tirx."))(
            *(one.astype(wide) for one in call.args)
        ).astype(dtype)

    return rule
