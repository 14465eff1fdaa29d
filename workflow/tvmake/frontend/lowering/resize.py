"""Resizing along axes whose lengths are known when the network runs.

A small kernel computes for each axis which elements an output is made of, and their weights; the elements are then looked up. It
serves any way to place outputs between elements. Ratios of sizes, which are what TVM's operator takes, are left to that
operator: it computes them without such kernels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.ir.dimensions import Extent, is_known

from tvm import relax, te, tirx  # isort: skip

Place = Callable[[Any], Any]
"""Where an output is between the elements of an axis, float32, by its index in float32."""

MAX_DENOMINATOR = 64
"""Scales that are fractions of a power of two up to this one resize by whole arithmetic."""


def scale_extent(extent: Extent, scale: float, dtype: str) -> Extent:
    """The length ``extent · scale`` rounded down, as computed in a type of floating-point values."""
    if is_known(extent):
        return int(np.floor(np.dtype(dtype).type(int(extent)) * np.dtype(dtype).type(scale)))
    fraction = Fraction(scale)
    if fraction.denominator <= MAX_DENOMINATOR:
        return simplify_extent(tirx.floordiv(extent * fraction.numerator, fraction.denominator))
    return tirx.Cast("int64", tirx.Cast(dtype, extent) * tirx.const(scale, dtype))


def simplify_extent(extent: Extent) -> Extent:
    """A length in the form that kernels have it in: FuseTIR fails where one has ``height * 4`` and its caller ``height * 2 * 2``."""
    return extent if is_known(extent) else tvm.sym.Analyzer().simplify(extent)


def single(value: Any) -> Any:
    """A length, an index or a number as a float32 value of a kernel.

    TVM 0.27 fails where it bounds a quotient of floating-point values that may be zero; it has no bounds for rounded values. Remove
    the rounding when tests/frontend/lowering/test_resize.py::test_tvm_still_fails_at_quotients_that_may_be_zero fails.
    """
    if not isinstance(value, tvm.ir.Expr):
        return tirx.const(float(value), "float32")
    return tirx.floor(tirx.Cast("float32", value))


def whole(value: Any) -> Any:
    """A length or an index as an int64 value of a kernel."""
    return tirx.Cast("int64", value) if isinstance(value, tvm.ir.Expr) else tirx.const(int(value), "int64")


def clamp(index: Any, extent: Extent) -> Any:
    """The nearest index within an axis."""
    return tirx.max(tirx.min(index, whole(extent) - whole(1)), whole(0))


def resize_feature_map(
    data: Any, sizes: Mapping[int, Extent], method: str, coordinates: str, rounding: str = ""
) -> Any:
    """Resize [n, c, height, width] by TVM's operator, which layouts and fusion know.

    Args:
        data: the feature map.
        sizes: by axis.
        method: ``nearest_neighbor`` or ``linear``.
        coordinates: where outputs are between elements, in the operator's words.
        rounding: of coordinates, likewise.
    """
    shape = [sizes.get(axis, extent) for axis, extent in enumerate(data.ty.shape)]
    options = {"method": method, "coordinate_transformation_mode": coordinates, "rounding_method": rounding}
    return relax.op.image.resize2d(data, relax.ShapeExpr(shape[2:]), layout="NCHW", **options)


def repeat_elements(data: Any, sizes: Mapping[int, Extent]) -> Any:
    """Resize [n, c, height, width] by whole factors: each element is repeated."""
    return resize_feature_map(data, sizes, "nearest_neighbor", "asymmetric", "floor")


def look_up(
    builder: Any, data: Any, axis: int, size: Extent, index: Callable[[Any], Any], extents: Sequence[Extent]
) -> Any:
    """The elements of an axis that outputs take.

    Args:
        builder: emits what is computed.
        size: the number of outputs.
        index: the element that an output takes, by the output's index, int64.
        extents: the lengths that occur in ``index``.
    """
    return builder.emit(relax.op.take(data, compute_along(builder, (size,), index, "resize_indices", extents), axis))


@dataclass(frozen=True)
class Filter:
    """How the elements around a place are weighted by their distance from it."""

    reach: int
    """How many elements on either side have a weight."""
    weight: Callable[[Any], Any]
    """By the distance, float32, which is less than the reach."""
    excludes_outside: bool = False
    """Whether what is beyond the axis has no weight; else it repeats the outermost element."""


def _linear(distance: Any) -> Any:
    return single(1) - distance


LINEAR = Filter(1, _linear)


def cubic(coefficient: float, excludes_outside: bool = False) -> Filter:
    """The cubic convolution of Keys, with its coefficient a."""

    def weight(distance: Any) -> Any:
        a, square = coefficient, distance * distance
        near = (single(a + 2) * distance - single(a + 3)) * square + single(1)
        far = ((single(a) * distance - single(5 * a)) * distance + single(8 * a)) * distance - single(4 * a)
        return tirx.Select(distance < single(1), near, far)

    return Filter(2, weight, excludes_outside)


def interpolate(
    builder: Any,
    data: Any,
    axis: int,
    extent: Extent,
    size: Extent,
    place: Place,
    extents: Sequence[Extent],
    filter_: Filter,
) -> Any:
    """Resize an axis of floating-point values to weighted sums of neighbours.

    Args:
        builder: emits what is computed.
        extent: the axis' length.
        size: the number of outputs.
        extents: the lengths that occur in ``place``.
    """
    taps, reach = 2 * filter_.reach, filter_.reach
    emit = builder.emit
    start = whole(1 - reach)

    def position(tap: Any, at: Any) -> Any:
        return tirx.Cast("int64", tirx.floor(place(single(at)))) + start + tap

    def weight(tap: Any, at: Any) -> Any:
        index = position(tap, at)
        weighted = filter_.weight(tirx.abs(place(single(at)) - single(index)))
        if not filter_.excludes_outside:
            return weighted
        return tirx.Select(tirx.all(index >= whole(0), index < whole(extent)), weighted, single(0))

    def normed(tap: Any, at: Any) -> Any:
        total = sum((weight(whole(other), at) for other in range(taps)), start=single(0))
        return weight(tap, at) / total

    def element(tap: Any, at: Any) -> Any:
        return clamp(position(tap, at), extent)

    indices = compute_along(builder, (taps, size), element, "resize_indices", (extent, *extents))
    weights = compute_along(
        builder, (taps, size), normed if filter_.excludes_outside else weight, "resize_weights", extents
    )
    dtype = str(data.ty.dtype.dtype)
    weights = weights if dtype == "float32" else emit(relax.op.astype(weights, dtype))
    aligned = [1] * len(data.ty.shape)
    aligned[axis] = size
    result = None
    for tap in range(taps):
        row = relax.const(tap, "int64")
        elements = emit(relax.op.take(data, emit(relax.op.take(indices, row, 0)), axis))
        factors = emit(relax.op.reshape(emit(relax.op.take(weights, row, 0)), aligned))
        term = emit(relax.op.multiply(elements, factors))
        result = term if result is None else emit(relax.op.add(result, term))
    return result


def compute_along(
    builder: Any, shape: tuple[Extent, ...], value: Callable[..., Any], name: str, extents: Sequence[Extent]
) -> Any:
    """A tensor of which each element is an expression of its index, int64.

    Args:
        builder: emits what is computed.
        shape: the tensor's.
        value: the expression.
        name: the kernel's.
        extents: the lengths that occur in the expression.
    """
    found = {
        variable for extent in extents if not is_known(extent) for variable in tirx.analysis.undefined_vars(extent)
    }
    variables = sorted(found, key=lambda variable: str(variable.name))

    def compute(*arguments: Any) -> Any:
        # The builder gives a kernel variables of its own.
        own = dict(zip(variables, arguments, strict=True))

        def with_own(expression: Any) -> Any:
            return tvm_ffi.structural_map(expression, (tvm.ir.Var, lambda variable: own.get(variable, variable)))

        return te.compute(
            [with_own(extent) for extent in shape], lambda *at: with_own(value(*map(whole, at))), name=name
        )

    return builder.emit_te(compute, *variables, primfunc_name_hint=name)
