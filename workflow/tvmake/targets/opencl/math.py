"""Mathematical functions by the names that OpenCL has for them.

Repair: `opencl-math-names`.
"""

from functools import cache
from typing import Any

import tvm

from tvmake.ir.expressions import operator_name
from tvmake.targets.affected import is_affected

RELEASES = "<0.28"

FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "hypot", "ldexp", "log1p", "nextafter", "tan",
)  # fmt: skip
"""TVM's names of them, which are OpenCL's."""

LEVEL = 100
"""Above TVM's own rules."""


@cache
def install() -> None:
    """Have OpenCL kernels of this process call them so."""
    if is_affected(RELEASES):
        for name in FUNCTIONS:
            tvm.tirx.register_intrin_lowering(f"tirx.{name}", target="opencl", f=_called_by_name, level=LEVEL)


def _called_by_name(call: Any) -> Any:
    name = operator_name(call).removeprefix("tirx.")
    return tvm.tirx.call_pure_extern(call.ty, name, *call.args)
