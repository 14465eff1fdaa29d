"""Candidate layouts of convolutions, and the attribute of a chosen one."""

from typing import Any

import tvm

from tvmake.ir.expressions import is_call

LAYOUTS = {
    # TVM has no kernel for transposed convolutions in NHWC, so they stay in NCHW.
    "NHWC": {"relax.nn.conv2d": ["NHWC", "OHWI"], "relax.nn.conv2d_transpose": ["NCHW", "IOHW"]},
    "NCHW": {"relax.nn.conv2d": ["NCHW", "OIHW"]},
}
"""Arguments of ConvertLayout. Pooling and element-wise operators take the layout of their inputs (naming one is an error);
transposes are inserted only where a layout begins or ends. ``keep`` and ``auto`` have no entry: ``auto`` selects one of
several results of the transform stage."""

FAILURES = (tvm.error.InternalError, ValueError, TypeError, RuntimeError, IndexError)
"""Exceptions of TVM's ConvertLayout for unsupported operators."""

CHOSEN_LAYOUT = "tvmake.layout"
"""Attribute of a module whose layout the user or a measurement chose; targets do not change it."""


def has_convolutions(module: "tvm.IRModule") -> bool:
    """Whether a network has operators whose layout can be chosen."""
    convolutions: list[Any] = []

    def visit(node: Any) -> None:
        if is_call(node, "nn.conv2d"):
            convolutions.append(node)

    tvm.relax.analysis.post_order_visit(module["main"].body, visit)
    return bool(convolutions)
