"""The layouts of convolutions that there is a choice of, and the mark of one that has been chosen."""

from typing import Any

import tvm

from tvmake.ir.expressions import is_call

LAYOUTS = {
    # TVM has no kernel for transposed convolutions in NHWC, so that theirs stays as it is.
    "NHWC": {"relax.nn.conv2d": ["NHWC", "OHWI"], "relax.nn.conv2d_transpose": ["NCHW", "IOHW"]},
    "NCHW": {"relax.nn.conv2d": ["NCHW", "OIHW"]},
}
"""The argument of ConvertLayout. Pooling and element-wise operators take the layout of their inputs (naming one
is an error); transposes appear only where a layout begins or ends. ``keep`` has no entry, nor has ``auto``: which layout
that is, is chosen among several results of the transform stage."""

FAILURES = (tvm.error.InternalError, ValueError, TypeError, RuntimeError, IndexError)
"""What TVM's ConvertLayout ends with where it does not know an operator."""

CHOSEN_LAYOUT = "tvmake.layout"
"""The attribute of a module whose layout the user, or a measurement, has chosen: no target changes it then."""


def has_convolutions(module: "tvm.IRModule") -> bool:
    """Whether a network has operators whose layout there is a choice of."""
    found: list[Any] = []

    def note(node: Any) -> None:
        if is_call(node, "nn.conv2d"):
            found.append(node)

    tvm.relax.analysis.post_order_visit(module["main"].body, note)
    return bool(found)
