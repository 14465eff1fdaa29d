"""Emit Relax's padding operator where TVM's importer for ONNX emits a kernel.

Graph rewrites match operators, not kernels. Repair: `onnx-written-kernels`.
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
"""The operator's mode for each function that computes a padding kernel."""


class PaddingBuilder(EqualSizesBuilder):
    """A block builder that emits operators for paddings and kernels for everything else."""

    def emit_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Emit the kernel of ``func`` on ``args``, or a padding operator; returns the variable."""
        call = _padding_call(MODES[func], *args) if func in MODES else None
        return super().emit_te(func, *args, **kwargs) if call is None else self.emit(call)


def _padding_call(mode: str, data: Any, before: list[int], after: list[int], *more: Any) -> Any:
    """The operator's call; None if it would differ: it pads with floats only and cannot crop."""
    extents = [width for pair in zip(before, after, strict=True) for width in pair]
    if not all(map(is_known, extents)):
        return None
    widths = [int(width) for width in extents]
    is_float = isinstance(data.ty, relax.TensorType) and str(data.ty.dtype.dtype).startswith("float")
    if not is_float or min(widths, default=0) < 0:
        return None
    return relax.op.nn.pad(data, widths, mode, float(more[0]) if mode == "constant" else 0.0)
