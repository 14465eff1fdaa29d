"""Convert select-and-scatter, the gradient of max pooling."""

import itertools
import math
from typing import Any

import numpy as np

from tvmake.frontend.stablehlo.conversion import Conversion, Converter, Unsupported, Value, direction, extents, integers
from tvmake.frontend.stablehlo.reductions import combining_operator
from tvmake.frontend.stablehlo.shapes import pad_value, slice_value

from tvm import relax  # isort: skip

LARGEST_WINDOW = 256
"""Elements of the largest pooling window; every element becomes some operators."""


def _select_and_scatter(conversion: Conversion, op: Any, values: list[Value]) -> Any:
    """For every offset in a window, add the source values of windows whose first extremum is at this offset."""
    operand, source, start = values
    body = [inner.operation for inner in op.regions[0].blocks[0].operations]
    arguments = list(op.regions[0].blocks[0].arguments)
    is_plain = len(body) == 2 and body[0].name == "stablehlo.compare" and list(body[0].operands) == arguments
    order = direction(body[0].opview) if is_plain else ""
    window = integers(op, "window_dimensions")
    if order not in ("GE", "LE") or combining_operator(op, 1) != "add":
        raise Unsupported("that selects other than the first maximum or minimum, or combines by other than a sum")
    if not isinstance(start, np.ndarray) or start.any():
        raise Unsupported("with an initial value that changes the result")
    if math.prod(window) > LARGEST_WINDOW:
        raise Unsupported(f"with windows of {math.prod(window)} elements; up to {LARGEST_WINDOW} are")
    shape, counts, rank = extents(operand), extents(source), len(window)
    strides, pads = integers(op, "window_strides", [1] * rank), integers(op, "padding", [0] * 2 * rank)
    low, high = pads[::2], pads[1::2]
    data = pad_value(conversion, operand, low, high, filling=-math.inf if order == "GE" else math.inf)
    lengths = [(count - 1) * stride + 1 for count, stride in zip(counts, strides, strict=True)]
    offsets = list(itertools.product(*map(range, window)))
    parts = [
        conversion.whole(
            slice_value(conversion, data, offset, [o + n for o, n in zip(offset, lengths, strict=True)], strides)
        )
        for offset in offsets
    ]
    extreme = parts[0]
    for part in parts[1:]:
        extreme = conversion.emit((relax.op.maximum if order == "GE" else relax.op.minimum)(extreme, part))
    result: Any = None
    earlier: Any = None
    for offset, part in zip(offsets, parts, strict=True):
        is_extreme = conversion.emit(relax.op.equal(part, extreme))
        is_first = is_extreme
        if earlier is not None:
            is_first = conversion.emit(relax.op.logical_and(is_extreme, conversion.emit(relax.op.logical_not(earlier))))
        earlier = is_extreme if earlier is None else conversion.emit(relax.op.logical_or(earlier, is_extreme))
        zero = relax.const(0, str(part.ty.dtype))
        selected = conversion.emit(relax.op.where(is_first, conversion.whole(source), zero))
        before = [o - n for o, n in zip(offset, low, strict=True)]
        after = [n - b - length for n, b, length in zip(shape, before, lengths, strict=True)]
        term = conversion.whole(pad_value(conversion, selected, before, after, [stride - 1 for stride in strides]))
        result = term if result is None else conversion.emit(relax.op.add(result, term))
    return result


CONVERTERS: dict[str, Converter] = {"stablehlo.select_and_scatter": _select_and_scatter}
