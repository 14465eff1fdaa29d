"""Group and instance norms by the squares of differences from the mean.

The mean is computed first, then the squares of the differences, as in PyTorch, ONNX Runtime and TVM's own layer norms.
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
"""What sums are kept in as they are; those of fewer bits are kept in float32."""


class _Places(NamedTuple):
    """What a norm has a mean of, and where its values lie in the tensor."""

    rows: list[Any]
    """The extents of what has means of its own: the batch, then groups or channels."""
    within: list[Any]
    """The extents that a mean is taken over; for groups, their channels first."""
    axes: list[int]
    """Where the axes of ``rows`` and ``within`` lie in the tensor, its channels in groups, as ``permute_dims`` has it."""
    channels: int
    """The axis of channels in the tensor."""
    size: Any
    """The channels of a group; None for channels by themselves."""

    def of(self, place: Sequence[Any]) -> list[Any]:
        """The indices in the tensor of a value, by its row and its place within."""
        found = dict(zip(self.axes, place, strict=True))
        indices = [found[axis] for axis in range(len(self.axes))]
        if self.size is not None:
            group, channel = indices[self.channels : self.channels + 2]
            indices[self.channels : self.channels + 2] = [group * self.size + channel]
        return indices


def _legalize_norm(builder: "relax.BlockBuilder", call: "relax.Call") -> Any:
    """A kernel that reads a tensor for its means, its deviations and its result, and what brings that into the tensor's shape."""
    data, scale, shift = call.args
    shape, attrs = list(data.ty.shape), call.attrs
    groups = int(attrs.num_groups) if hasattr(attrs, "num_groups") else 0
    channels, axes = int(attrs.channel_axis) % len(shape), [int(axis) % len(shape) for axis in attrs.axes]
    order = _places(shape, channels, groups, axes).axes
    normed = builder.call_te(
        _normed,
        data,
        scale,
        shift,
        channels,
        groups,
        axes,
        float(attrs.epsilon),
        primfunc_name_hint="group_norm" if groups else "instance_norm",
    )
    if order != sorted(order):
        back = [order.index(axis) for axis in range(len(order))]
        normed = builder.call_te(topi.transpose, builder.normalize(normed), back)
    if not groups:
        return normed
    return legalize_reshape(builder, builder.normalize(relax.op.reshape(builder.emit(normed), relax.ShapeExpr(shape))))


def _places(shape: Sequence[Any], channels: int, groups: int, reduced: Sequence[int]) -> _Places:
    if not groups:
        rows = [axis for axis in range(len(shape)) if axis not in reduced]
        axes = [*rows, *reduced]
        return _Places([shape[axis] for axis in rows], [shape[axis] for axis in reduced], axes, channels, None)
    size = shape[channels] // groups
    apart = [*shape[:channels], groups, size, *shape[channels + 1 :]]
    within = [channels + 1, *(axis + 1 if axis > channels else axis for axis in reduced)]
    rows = [axis for axis in range(len(apart)) if axis not in within]
    return _Places([apart[axis] for axis in rows], [apart[axis] for axis in within], [*rows, *within], channels, size)


def _normed(data: Any, scale: Any, shift: Any, channels: int, groups: int, axes: Sequence[int], epsilon: float) -> Any:
    places = _places(list(data.shape), channels, groups, axes)
    dtype = data.dtype if data.dtype in WIDE else "float32"
    rows = len(places.rows)
    length = tvm.tirx.Cast(dtype, math.prod(places.within))

    def value(indices: Sequence[Any]) -> Any:
        return data(*places.of(indices)).astype(dtype)

    def total(name: str, of: Callable[[Sequence[Any], Sequence[Any]], Any]) -> Any:
        over = [te.reduce_axis((0, extent), f"k{number}") for number, extent in enumerate(places.within)]
        return te.compute(places.rows, lambda *row: te.sum(of(row, over), over), name=name)

    def square(row: Sequence[Any], place: Sequence[Any]) -> Any:
        difference = value((*row, *place)) - mean(*row)
        return difference * difference

    sums = total("norm_sum", lambda row, place: value((*row, *place)))
    mean = te.compute(places.rows, lambda *row: sums(*row) / length, name="norm_mean")
    squares = total("norm_squares", square)

    def factor(*row: Any) -> Any:
        return tvm.tirx.rsqrt(squares(*row) / length + tvm.tirx.const(epsilon, dtype))

    # LLVM takes a root out of a loop that runs for certain, which one over a dynamic dimension may not.
    is_dynamic = not all(map(is_known, [*places.rows, *places.within]))
    factors = te.compute(places.rows, factor, name="norm_factor") if is_dynamic else factor

    def result(*indices: Any) -> Any:
        row = indices[:rows]
        channel = places.of(indices)[places.channels]
        normed = (value(indices) - mean(*row)) * factors(*row)
        return (normed * scale(channel).astype(dtype) + shift(channel).astype(dtype)).astype(data.dtype)

    return te.compute([*places.rows, *places.within], result, name="norm", tag="broadcast")


NORMS: dict[str, Legalize] = dict.fromkeys(("relax.nn.group_norm", "relax.nn.instance_norm"), _legalize_norm)
"""For ``LegalizeOps``, which is to have them wherever it lowers these operators."""
