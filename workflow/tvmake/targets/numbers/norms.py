"""Compute the variance of group and instance norms from squared differences to the mean.

The mean is computed first, then the squared differences, as in PyTorch, ONNX Runtime and TVM's own layer norms.
Repair: `norm-variance`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tvm

from tvmake.ir.dimensions import is_known
from tvmake.targets.dynamic.reshapes import legalize_reshape

from tvm import relax, te, topi  # isort: skip

Legalize = Callable[["relax.BlockBuilder", "relax.Call"], Any]

WIDE = ("float32", "float64")
"""Dtypes in which sums are computed; smaller dtypes use float32."""


class _NormAxes(NamedTuple):
    """The axes of a norm's means, and their positions in the tensor."""

    rows: list[Any]
    """The extents of the axes with separate means: the batch, then groups or channels."""
    within: list[Any]
    """The extents of the axes that a mean covers; with groups, their channels first."""
    axes: list[int]
    """The positions of ``rows`` and ``within`` in the tensor with grouped channels, as for ``permute_dims``."""
    channels: int
    """The axis of channels in the tensor."""
    size: Any
    """Channels of a group; None without groups."""

    def of(self, position: Sequence[Any]) -> list[Any]:
        """The indices of a value in the tensor, from its row and its indices within the row."""
        index_of = dict(zip(self.axes, position, strict=True))
        indices = [index_of[axis] for axis in range(len(self.axes))]
        if self.size is not None:
            group, channel = indices[self.channels : self.channels + 2]
            indices[self.channels : self.channels + 2] = [group * self.size + channel]
        return indices


def _legalize_norm(builder: "relax.BlockBuilder", call: "relax.Call") -> Any:
    """A kernel that computes means, deviations and the result, and the operators that restore the tensor's shape."""
    data, scale, shift = call.args
    shape, attrs = list(data.ty.shape), call.attrs
    groups = int(attrs.num_groups) if hasattr(attrs, "num_groups") else 0
    channels, axes = int(attrs.channel_axis) % len(shape), [int(axis) % len(shape) for axis in attrs.axes]
    order = _norm_axes(shape, channels, groups, axes).axes
    name, epsilon = "group_norm" if groups else "instance_norm", float(attrs.epsilon)
    normed = builder.call_te(_normalize, data, scale, shift, channels, groups, axes, epsilon, primfunc_name_hint=name)
    if order != sorted(order):
        back = [order.index(axis) for axis in range(len(order))]
        normed = builder.call_te(topi.transpose, builder.normalize(normed), back)
    if not groups:
        return normed
    return legalize_reshape(builder, builder.normalize(relax.op.reshape(builder.emit(normed), relax.ShapeExpr(shape))))


def _norm_axes(shape: Sequence[Any], channels: int, groups: int, reduced: Sequence[int]) -> _NormAxes:
    if not groups:
        rows = [axis for axis in range(len(shape)) if axis not in reduced]
        axes = [*rows, *reduced]
        return _NormAxes([shape[axis] for axis in rows], [shape[axis] for axis in reduced], axes, channels, None)
    size = shape[channels] // groups
    grouped = [*shape[:channels], groups, size, *shape[channels + 1 :]]
    within = [channels + 1, *(axis + 1 if axis > channels else axis for axis in reduced)]
    rows = [axis for axis in range(len(grouped)) if axis not in within]
    return _NormAxes(
        [grouped[axis] for axis in rows], [grouped[axis] for axis in within], [*rows, *within], channels, size
    )


def _normalize(
    data: Any, scale: Any, shift: Any, channels: int, groups: int, axes: Sequence[int], epsilon: float
) -> Any:
    layout = _norm_axes(list(data.shape), channels, groups, axes)
    dtype = data.dtype if data.dtype in WIDE else "float32"
    rows = len(layout.rows)
    length = tvm.tirx.Cast(dtype, math.prod(layout.within))

    def value(indices: Sequence[Any]) -> Any:
        return data(*layout.of(indices)).astype(dtype)

    def total(name: str, of: Callable[[Sequence[Any], Sequence[Any]], Any]) -> Any:
        over = [te.reduce_axis((0, extent), f"k{number}") for number, extent in enumerate(layout.within)]
        return te.compute(layout.rows, lambda *row: te.sum(of(row, over), over), name=name)

    def square(row: Sequence[Any], position: Sequence[Any]) -> Any:
        difference = value((*row, *position)) - mean(*row)
        return difference * difference

    sums = total("norm_sum", lambda row, position: value((*row, *position)))
    mean = te.compute(layout.rows, lambda *row: sums(*row) / length, name="norm_mean")
    squares = total("norm_squares", square)

    def factor(*row: Any) -> Any:
        return tvm.tirx.rsqrt(squares(*row) / length + tvm.tirx.const(epsilon, dtype))

    # LLVM hoists the square root out of loops only if they certainly run, which is unknown for a dynamic dimension.
    is_dynamic = not all(map(is_known, [*layout.rows, *layout.within]))
    factors = te.compute(layout.rows, factor, name="norm_factor") if is_dynamic else factor

    def result(*indices: Any) -> Any:
        row = indices[:rows]
        channel = layout.of(indices)[layout.channels]
        normed = (value(indices) - mean(*row)) * factors(*row)
        return (normed * scale(channel).astype(dtype) + shift(channel).astype(dtype)).astype(data.dtype)

    return te.compute([*layout.rows, *layout.within], result, name="norm", tag="broadcast")


NORMS: dict[str, Legalize] = dict.fromkeys(("relax.nn.group_norm", "relax.nn.instance_norm"), _legalize_norm)
"""Legalisations for ``LegalizeOps``, wherever it lowers these operators."""
