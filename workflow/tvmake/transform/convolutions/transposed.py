"""Convert transposed convolutions to convolutions with interleaved results.

A transposed convolution with stride s gives s results for each input element along each axis, and the weights of a result
depend only on its index modulo s. A convolution with s times as many channels per axis computes the same values, and its
channels are then interleaved (the sub-pixel convolution of Shi et al., 2016, in reverse). Layouts, schedules, textures and
8-bit integers support convolutions. Repair: `transposed-convolutions`.
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
"""Importers' layouts of data and weights, by the number of spatial axes."""

CONVOLUTIONS = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}
TRANSPOSED = {f"nn.conv{rank}d_transpose": rank for rank in CONVOLUTIONS}


def as_convolutions(module: "tvm.IRModule", kept: Collection[str] = ()) -> "tvm.IRModule":
    """Replace transposed convolutions with constant weights by convolutions.

    Args:
        kept: names of operators to leave unchanged (``nn.conv2d_transpose``).
    """
    excluded = {name.removeprefix("relax.") for name in kept}
    if not TRANSPOSED.keys() - excluded:
        return module
    return rewritten(module, _TransposedConvMutator(module, excluded))


@dataclass(frozen=True)
class Direction:
    """One spatial axis of a transposed convolution as a convolution.

    Output element ``step·q + phase − skipped`` is the sum, over positions t of the kernel window, of input element
    ``q + t − before`` times the weight ``taps[phase][t]`` (None for no weight).
    """

    step: int
    skipped: int
    """Number of results to drop at the start; below ``step``."""
    taps: tuple[tuple[int | None, ...], ...]
    before: int
    """Zeros before the input."""
    after: int
    """Zeros after the input."""
    dilation: int
    length: int
    """Length of the output."""


def direction(
    extent: int, window: int, step: int, padding: tuple[int, int], dilation: int, extra: int
) -> Direction | None:
    """Convert one spatial axis; None if it has both stride and dilation, or needs negative padding.

    Args:
        extent: length of the input.
        window: length of the kernel window.
        step: stride.
        padding: elements to cut from the start and the end of the result.
        extra: elements to add at its end (output padding).
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
    candidates = [_split_phases(extent, window, step, padding[0], skipped, length) for skipped in range(step)]
    usable = [entry for entry in candidates if min(entry.before, entry.after) >= 0 and length > 0]
    # Prefer the smallest window, then the fewest elements to cut.
    return min(usable, key=lambda entry: (len(entry.taps[0]), entry.skipped), default=None)


def _split_phases(extent: int, window: int, step: int, cut: int, skipped: int, length: int) -> Direction:
    # Weight k = y + cut − step·x connects output y and input x; y = step·q + phase − skipped, x = q + offset.
    pairs = [(phase, k) for phase in range(step) for k in range(window)]
    offsets = {
        (phase, k): (phase - skipped + cut - k) // step for phase, k in pairs if (phase - skipped + cut - k) % step == 0
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
    def __init__(self, module: "tvm.IRModule", excluded: Collection[str]):
        super().__init__(module)
        self._excluded = excluded

    def visit_call_(self, op: relax.Call) -> relax.Expr:
        call = self.visit_expr_post_order(op)
        name = operator_name(call)
        if name not in TRANSPOSED or name in self._excluded:
            return call
        data, weights = call.args
        rank = TRANSPOSED[name]
        directions = _directions(call, rank)
        emit, groups = self.builder_.emit, int(call.attrs.groups)
        kernel = self._kernel(weights, directions, groups) if directions else None
        if kernel is None or not directions:
            return call
        layout, _ = LAYOUTS[rank]
        convolution = CONVOLUTIONS[rank](
            data,
            kernel,
            strides=[1] * rank,
            padding=[axis.before for axis in directions] + [axis.after for axis in directions],
            dilation=[axis.dilation for axis in directions],
            groups=groups,
            data_layout=layout,
            kernel_layout=f"OI{layout[2:]}",
        )
        steps = [axis.step for axis in directions]
        if math.prod(steps) == 1:
            return convolution
        phases = emit(convolution)
        batch, _, *counts = phases.ty.shape
        channels = call.ty.shape[1]
        split = emit(relax.op.reshape(phases, [batch, channels, *steps, *counts]))
        order = [0, 1, *itertools.chain(*((2 + rank + index, 2 + index) for index in range(rank)))]
        neighbours = emit(relax.op.permute_dims(split, order))
        full = [_number(count) * step for count, step in zip(counts, steps, strict=True)]
        whole = relax.op.reshape(neighbours, [batch, channels, *full])
        begin = [axis.skipped for axis in directions]
        lengths = list(map(_number, list(call.ty.shape)[2:]))
        if not any(begin) and all(map(tvm.sym.Analyzer().can_prove_equal, full, lengths)):
            return whole
        end = [skipped + length for skipped, length in zip(begin, lengths, strict=True)]
        return relax.op.strided_slice(emit(whole), list(range(2, 2 + rank)), begin, end, assume_inbound=True)

    def _kernel(self, weights: Any, directions: Sequence[Direction], groups: int) -> Any | None:
        """Return the convolution's weights, float or dequantised; None if they are not constant."""
        if (values := constant(weights)) is not None:
            return relax.const(spread_weights(values, directions, groups), str(weights.ty.dtype))
        source = affine(definition(self, weights))
        values = constant(definition(self, source.integers)) if source and source.dtype in SMALL else None
        if source is None or values is None or not source.is_known:
            return None
        if max(source.scale.size, source.zero.size) > 1 and (source.axis != 1 or groups > 1):
            return None
        centred = values.astype(np.int32) - along(source.zero.astype(np.int32), 1, values.ndim)
        phases = math.prod(axis.step for axis in directions)
        scale, zero = (np.repeat(part, phases) if part.ndim else part for part in (source.scale, source.zero))
        integers = spread_weights(centred, directions, groups)
        integers += along(zero.astype(np.int32), 0, values.ndim)
        return self.builder_.emit(dequantize(relax.const(integers.astype(source.dtype), source.dtype), scale, zero, 0))


def spread_weights(weights: np.ndarray, directions: Sequence[Direction], groups: int) -> np.ndarray:
    """Return the convolution's weights: [channels out · phases, channels in / groups, window …].

    Args:
        weights: weights of the transposed convolution, [channels in, channels out / groups, window …].
    """
    channels, group_size, *_ = weights.shape
    phases = [range(axis.step) for axis in directions]
    window = [len(axis.taps[0]) for axis in directions]
    kernel = np.zeros((groups, group_size, *map(len, phases), channels // groups, *window), weights.dtype)
    grouped = weights.reshape(groups, channels // groups, *weights.shape[1:]).swapaxes(1, 2)
    for phase in itertools.product(*phases):
        for position in itertools.product(*map(range, window)):
            taps: list[Any] = [
                axis.taps[number][t] for axis, number, t in zip(directions, phase, position, strict=True)
            ]
            if None not in taps:
                whole = slice(None)
                index: Any = (whole, whole, *phase, whole, *position)
                kernel[index] = grouped[(..., *taps)]
    return kernel.reshape(groups * group_size * math.prod(map(len, phases)), channels // groups, *window)


def _directions(call: relax.Call, rank: int) -> list[Direction] | None:
    """Convert all spatial axes; None if one cannot be converted."""
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
    directions = [
        direction(
            int(extents[index])
            if isinstance(extents[index], tvm.tirx.IntImm)
            else 1,  # the result is the same for all extents
            int(windows[index]),
            int(attrs.strides[index]),
            (padding[index], padding[rank + index]),
            int(attrs.dilation[index]),
            int(attrs.output_padding[index]),
        )
        for index in range(rank)
    ]
    return [axis for axis in directions if axis is not None] if None not in directions else None


def _number(size: Any) -> Any:
    """Return a constant size as an int; others unchanged."""
    return int(size) if isinstance(size, tvm.tirx.IntImm) else size
