"""Paddings as operators of Relax where TVM's importer for ONNX writes kernels.

Rewrites of the graph see through the operators, but not through kernels. Repair: `onnx-written-kernels`.
"""

from collections.abc import Callable
from typing import Any

from tvmake.frontend.equal_sizes import EqualSizesBuilder
from tvmake.ir.dimensions import is_known

from tvm import relax, topi  # isort: skip


MODES: dict[Callable[..., Any], str] = {
    topi.nn.pad: "constant",
    topi.nn.mirror_pad: "reflect",
    topi.nn.replicate_pad: "replicate",
    topi.nn.circular_pad: "circular",
}
"""Modes of the operator, by the functions that compute the kernels."""


class PaddingBuilder(EqualSizesBuilder):
    """A block builder that emits an operator for a padding, and kernels for everything else."""

    def emit_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Emit what ``func`` computes of ``args``; returns the variable."""
        call = _padded(MODES[func], *args) if func in MODES else None
        return super().emit_te(func, *args, **kwargs) if call is None else self.emit(call)


def _padded(mode: str, data: Any, before: list[int], after: list[int], *more: Any) -> Any:
    """The operator's call; None where it is not the same: its number is a float, and it does not crop."""
    given = [width for pair in zip(before, after, strict=True) for width in pair]
    if not all(map(is_known, given)):
        return None
    widths = [int(width) for width in given]
    is_float = isinstance(data.ty, relax.TensorType) and str(data.ty.dtype.dtype).startswith("float")
    if not is_float or min(widths, default=0) < 0:
        return None
    return relax.op.nn.pad(data, widths, mode, float(more[0]) if mode == "constant" else 0.0)
