"""Transposed convolutions as convolutions whose results are put side by side.

A transposed convolution that spreads its input by a stride of s gives s results for each input element, in each direction; which weights
meet in one depends on its index modulo s alone. So a convolution with s times as many channels in each direction computes the same,
and its channels are laid out as neighbours afterwards (the sub-pixel convolution of Shi et al., 2016, backwards). A convolution has all
that layouts, schedules, textures and 8-bit integers give. Repair: `transposed-convolutions`.
"""

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tvmake.ir.expressions import constant, operator_name
from tvmake.ir.rewriting import definition, rewritten
from tvmake.quantize.integers.affine import SMALL, affine, along, dequantize

from tvm import relax  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

LAYOUTS = {1: ("NCW", "IOW"), 2: ("NCHW", "IOHW"), 3: ("NCDHW", "IODHW")}
"""Of data and weights, by the number of directions: as importers write them."""

CONVOLUTIONS = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}
TRANSPOSED = {f"nn.conv{rank}d_transpose": rank for rank in CONVOLUTIONS}


def as_convolutions(module: "tvm.IRModule", kept: Collection[str] = ()) -> "tvm.IRModule":
    """The same network with convolutions for transposed ones whose weights are constants.

    Args:
        kept: names of operators that stay as they are (``nn.conv2d_transpose``).
    """
    left_alone = {name.removeprefix("relax.") for name in kept}
    if not TRANSPOSED.keys() - left_alone:
        return module
    return rewritten(module, _TransposedConvMutator(module, left_alone))


@dataclass(frozen=True)
class Direction:
    """One direction of a transposed convolution, written as a convolution.

    Output place ``step·q + phase − skipped`` of phase ``phase`` is the sum over the window's places t of input place
    ``q + t − before`` times the weight ``taps[phase][t]`` (None where there is none).
    """

    step: int
    skipped: int
    """Results before the first that is wanted; below ``step``."""
    taps: tuple[tuple[int | None, ...], ...]
    before: int
    """Zeros before the input."""
    after: int
    """Zeros behind it."""
    dilation: int
    length: int
    """Of the output."""


def direction(
    extent: int, window: int, step: int, padding: tuple[int, int], dilation: int, extra: int
) -> Direction | None:
    """One direction as a convolution; None where that would need a part of the input only, or has gaps between weights and steps.

    Args:
        extent: of the input.
        window: of the weights.
        padding: what is cut off the result, before and behind.
        extra: what is added behind it (output padding).
    """
    if step > 1 and dilation > 1:
        return None
    length = (extent - 1) * step - sum(padding) + dilation * (window - 1) + 1 + extra
    if step == 1:
        reach = dilation * (window - 1)
        before, after = reach - padding[0], reach - padding[1] + extra
        taps: tuple[tuple[int | None, ...], ...] = (tuple(reversed(range(window))),)
        return (
            Direction(1, 0, taps, before, after, dilation, length) if min(before, after) >= 0 and length > 0 else None
        )
    found = [_spread(extent, window, step, padding[0], skipped, length) for skipped in range(step)]
    usable = [one for one in found if one is not None and min(one.before, one.after) >= 0 and length > 0]
    # The smallest window; of equal ones that which leaves nothing to cut off.
    return min(usable, key=lambda one: (len(one.taps[0]), one.skipped), default=None)


def _spread(extent: int, window: int, step: int, cut: int, skipped: int, length: int) -> Direction | None:
    # Output place y and input place x meet in weight k = y + cut − step·x; y = step·q + phase − skipped, x = q + offset.
    places = [(phase, k) for phase in range(step) for k in range(window)]
    offsets = {
        (phase, k): (phase - skipped + cut - k) // step
        for phase, k in places
        if (phase - skipped + cut - k) % step == 0
    }
    first, last = min(offsets.values()), max(offsets.values())
    taps: list[list[int | None]] = [[None] * (last - first + 1) for _ in range(step)]
    for (phase, k), offset in offsets.items():
        taps[phase][offset - first] = k
    count = math.ceil((length + skipped) / step)
    after = count - 1 + last - (extent - 1)
    return Direction(step, skipped, tuple(map(tuple, taps)), -first, after, 1, length)


@mutator
class _TransposedConvMutator(PyExprMutator):
    def __init__(self, module: "tvm.IRModule", left_alone: Collection[str]):
        super().__init__(module)
        self._left_alone = left_alone

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        name = operator_name(call)
        if name not in TRANSPOSED or name in self._left_alone:
            return call
        data, weights = call.args
        rank = TRANSPOSED[name]
        directions = _directions(call, rank)
        emit, groups = self.builder_.emit, int(call.attrs.groups)
        spread = self._spread(weights, directions, groups) if directions else None
        if spread is None or not directions:
            return call
        layout, _ = LAYOUTS[rank]
        made = CONVOLUTIONS[rank](
            data,
            spread,
            strides=[1] * rank,
            padding=[one.before for one in directions] + [one.after for one in directions],
            dilation=[one.dilation for one in directions],
            groups=groups,
            data_layout=layout,
            kernel_layout=f"OI{layout[2:]}",
        )
        steps = [one.step for one in directions]
        if math.prod(steps) == 1:
            return made
        made = emit(made)
        batch, _, *counts = made.ty.shape
        channels = call.ty.shape[1]
        split = emit(relax.op.reshape(made, [batch, channels, *steps, *counts]))
        order = [0, 1, *itertools.chain(*((2 + rank + place, 2 + place) for place in range(rank)))]
        neighbours = emit(relax.op.permute_dims(split, order))
        full = [_number(count) * step for count, step in zip(counts, steps, strict=True)]
        whole = relax.op.reshape(neighbours, [batch, channels, *full])
        begin = [one.skipped for one in directions]
        lengths = list(map(_number, list(call.ty.shape)[2:]))
        if not any(begin) and all(map(tvm.sym.Analyzer().can_prove_equal, full, lengths)):
            return whole
        end = [skipped + length for skipped, length in zip(begin, lengths, strict=True)]
        return relax.op.strided_slice(emit(whole), list(range(2, 2 + rank)), begin, end, assume_inbound=True)

    def _spread(self, weights: Any, directions: Sequence[Direction], groups: int) -> Any | None:
        """The convolution's weights, real ones or integers made real; None where they are not known."""
        if (values := constant(weights)) is not None:
            return relax.const(spread_weights(values, directions, groups), str(weights.ty.dtype))
        found = affine(definition(self, weights))
        values = constant(definition(self, found.integers)) if found and found.dtype in SMALL else None
        if found is None or values is None or not found.is_known:
            return None
        if max(found.scale.size, found.zero.size) > 1 and (found.axis != 1 or groups > 1):
            return None
        centred = values.astype(np.int32) - along(found.zero.astype(np.int32), 1, values.ndim)
        phases = math.prod(one.step for one in directions)
        scale, zero = (np.repeat(one, phases) if one.ndim else one for one in (found.scale, found.zero))
        integers = spread_weights(centred, directions, groups)
        integers += along(zero.astype(np.int32), 0, values.ndim)
        return self.builder_.emit(dequantize(relax.const(integers.astype(found.dtype), found.dtype), scale, zero, 0))


def spread_weights(weights: np.ndarray, directions: Sequence[Direction], groups: int) -> np.ndarray:
    """The convolution's weights: [channels out · phases, channels in / groups, window …].

    Args:
        weights: of the transposed convolution, [channels in, channels out / groups, window …].
    """
    channels, each, *_ = weights.shape
    phases = [range(one.step) for one in directions]
    window = [len(one.taps[0]) for one in directions]
    spread = np.zeros((groups, each, *map(len, phases), channels // groups, *window), weights.dtype)
    grouped = weights.reshape(groups, channels // groups, *weights.shape[1:]).swapaxes(1, 2)
    for phase in itertools.product(*phases):
        for place in itertools.product(*map(range, window)):
            taps: list[Any] = [one.taps[number][t] for one, number, t in zip(directions, phase, place, strict=True)]
            if None not in taps:
                whole = slice(None)
                index: Any = (whole, whole, *phase, whole, *place)
                spread[index] = grouped[(..., *taps)]
    return spread.reshape(groups * each * math.prod(map(len, phases)), channels // groups, *window)


def _directions(call: relax.Call, rank: int) -> list[Direction] | None:
    """What each direction becomes; None where one cannot be written so."""
    attrs, data, weights = call.attrs, call.args[0].ty, call.args[1].ty
    if (str(attrs.data_layout), str(attrs.kernel_layout)) != LAYOUTS[rank] or str(attrs.out_layout) != str(
        attrs.data_layout
    ):
        return None
    if data.shape is None or call.ty.shape is None or call.ty.dtype != data.dtype:
        return None
    extents, windows = list(data.shape)[2:], list(weights.shape)[2:]
    if not all(isinstance(extent, tvm.tirx.IntImm) for extent in windows):
        return None
    padding = [int(value) for value in attrs.padding]
    found = [
        direction(
            int(extents[place])
            if isinstance(extents[place], tvm.tirx.IntImm)
            else 1,  # all extents make the same of it
            int(windows[place]),
            int(attrs.strides[place]),
            (padding[place], padding[rank + place]),
            int(attrs.dilation[place]),
            int(attrs.output_padding[place]),
        )
        for place in range(rank)
    ]
    return [one for one in found if one is not None] if None not in found else None


def _number(size: Any) -> Any:
    """A size that is known as an int; others unchanged."""
    return int(size) if isinstance(size, tvm.tirx.IntImm) else size
