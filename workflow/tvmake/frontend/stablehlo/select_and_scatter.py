"""Select-and-scatter, the gradient of max pooling."""

import itertools
import math
from typing import Any

import numpy as np

from tvmake.frontend.stablehlo.conversion import Conversion, Converter, Unsupported, Value, extents, integers
from tvmake.frontend.stablehlo.elementwise import direction
from tvmake.frontend.stablehlo.reductions import combined_by
from tvmake.frontend.stablehlo.shapes import padded, sliced

from tvm import relax  # isort: skip

LARGEST_WINDOW = 256
"""Elements, each of which takes some operators."""


def _select_and_scatter(at: Conversion, op: Any, values: list[Value]) -> Any:
    """By the places in a window: each is the first extreme of some windows, whose numbers are moved to where it lies."""
    operand, source, start = values
    body = [inner.operation for inner in op.regions[0].blocks[0].operations]
    arguments = list(op.regions[0].blocks[0].arguments)
    is_plain = len(body) == 2 and body[0].name == "stablehlo.compare" and list(body[0].operands) == arguments
    order = direction(body[0].opview) if is_plain else ""
    window = integers(op, "window_dimensions")
    if order not in ("GE", "LE") or combined_by(op, 1) != "add":
        raise Unsupported("that selects other than the first maximum or minimum, or combines by other than a sum")
    if not isinstance(start, np.ndarray) or start.any():
        raise Unsupported("with a start that changes the result")
    if math.prod(window) > LARGEST_WINDOW:
        raise Unsupported(f"with windows of {math.prod(window)} elements; up to {LARGEST_WINDOW} are")
    shape, counts, rank = extents(operand), extents(source), len(window)
    strides, pads = integers(op, "window_strides", [1] * rank), integers(op, "padding", [0] * 2 * rank)
    low, high = pads[::2], pads[1::2]
    data = padded(at, operand, low, high, filling=-math.inf if order == "GE" else math.inf)
    lengths = [(count - 1) * stride + 1 for count, stride in zip(counts, strides, strict=True)]
    offsets = list(itertools.product(*map(range, window)))
    parts = [
        at.whole(sliced(at, data, offset, [o + n for o, n in zip(offset, lengths, strict=True)], strides))
        for offset in offsets
    ]
    extreme = parts[0]
    for part in parts[1:]:
        extreme = at.emit((relax.op.maximum if order == "GE" else relax.op.minimum)(extreme, part))
    found: Any = None
    earlier: Any = None
    for offset, part in zip(offsets, parts, strict=True):
        is_extreme = at.emit(relax.op.equal(part, extreme))
        is_chosen = is_extreme
        if earlier is not None:
            is_chosen = at.emit(relax.op.logical_and(is_extreme, at.emit(relax.op.logical_not(earlier))))
        earlier = is_extreme if earlier is None else at.emit(relax.op.logical_or(earlier, is_extreme))
        zero = relax.const(0, str(part.ty.dtype))
        given = at.emit(relax.op.where(is_chosen, at.whole(source), zero))
        before = [o - n for o, n in zip(offset, low, strict=True)]
        after = [n - b - length for n, b, length in zip(shape, before, lengths, strict=True)]
        moved = at.whole(padded(at, given, before, after, [stride - 1 for stride in strides]))
        found = moved if found is None else at.emit(relax.op.add(found, moved))
    return found


CONVERTERS: dict[str, Converter] = {"stablehlo.select_and_scatter": _select_and_scatter}
