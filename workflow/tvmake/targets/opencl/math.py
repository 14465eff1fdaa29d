"""Use OpenCL's names of mathematical functions.

Repair: `opencl-math-names`.
"""

from functools import cache
from typing import Any

import tvm

from tvmake.ir.expressions import operator_name
from tvmake.targets.affected import is_affected

FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "hypot", "ldexp", "log1p", "nextafter", "tan",
)  # fmt: skip
"""Functions with the same name in TVM and OpenCL."""

LEVEL = 100
"""Above the level of TVM's own rules."""


@cache
def install() -> None:
    """Apply the names to this process' OpenCL kernels."""
    if is_affected():
        for name in FUNCTIONS:
            tvm.tirx.register_intrin_lowering(f"tirx.{name}", target="opencl", f=_call_by_name, level=LEVEL)


def _call_by_name(call: Any) -> Any:
    name = operator_name(call).removeprefix("tirx.")
    return tvm.tirx.call_pure_extern(call.ty, name, *call.args)
