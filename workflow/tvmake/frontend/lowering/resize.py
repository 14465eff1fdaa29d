"""Resize of dynamic dimensions, for any mapping of output coordinates to input coordinates.

For each axis, a small kernel computes the indices and weights of the input elements; a ``take`` reads the elements. TVM's own
operator needs no such kernels and is used if the scale is the ratio of the sizes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.ir.dimensions import Extent, is_known, whole_factor

from tvm import relax, te, tirx  # isort: skip

Position = Callable[[Any], Any]
"""From an output's index to its input coordinate, both float32, in elements of an axis."""

MAX_DENOMINATOR = 64
"""Scales whose denominator is a power of two up to this one use integer arithmetic."""


@dataclass(frozen=True)
class ResizedAxis:
    """A resized axis: its number, its old and its new length, and the scale."""

    number: int
    extent: Extent
    size: Extent
    scale: float | None
    """The source's scale; None if it follows from the sizes."""

    @property
    def factor(self) -> int | None:
        """The integer factor of the length; None for other scales."""
        if self.scale is not None:
            return int(self.scale) if self.scale == int(self.scale) else None
        return whole_factor(self.extent, self.size)

    @property
    def is_by_sizes(self) -> bool:
        """Whether the scale is the ratio of the sizes."""
        return self.scale is None or bool(self.factor)


def scale_extent(extent: Extent, scale: float, dtype: str) -> Extent:
    """The length ``extent · scale``, computed in the floating-point type ``dtype`` and rounded down."""
    if is_known(extent):
        return int(np.floor(np.dtype(dtype).type(int(extent)) * np.dtype(dtype).type(scale)))
    fraction = Fraction(scale)
    if fraction.denominator <= MAX_DENOMINATOR:
        return simplify_extent(tirx.floordiv(extent * fraction.numerator, fraction.denominator))
    return tirx.Cast("int64", tirx.Cast(dtype, extent) * tirx.const(scale, dtype))


def simplify_extent(extent: Extent) -> Extent:
    """A length in the form that kernels use: FuseTIR fails if a kernel has ``height * 4`` and its caller ``height * 2 * 2``."""
    return extent if is_known(extent) else tvm.sym.Analyzer().simplify(extent)


def single(value: Any) -> Any:
    """A length, an index or a number as a float32 value of a kernel, rounded down. Repair: `float-quotient-bounds`."""
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
    data: Any, axes: Sequence[ResizedAxis], method: str, coordinates: str, rounding: str = ""
) -> Any:
    """Resize [n, c, height, width] by TVM's operator, which layout and fusion passes support.

    Args:
        data: the feature map.
        axes: the resized ones of height and width.
        method: ``nearest_neighbor`` or ``linear``.
        coordinates: the operator's ``coordinate_transformation_mode``.
        rounding: the operator's ``rounding_method``.
    """
    sizes = {axis.number: axis.size for axis in axes}
    shape = [sizes.get(number, extent) for number, extent in enumerate(data.ty.shape)]
    options = {"method": method, "coordinate_transformation_mode": coordinates, "rounding_method": rounding}
    return relax.op.image.resize2d(data, relax.ShapeExpr(shape[2:]), layout="NCHW", **options)


def repeat_elements(data: Any, axes: Sequence[ResizedAxis]) -> Any:
    """Resize [n, c, height, width] by integer factors: repeat every element."""
    return resize_feature_map(data, axes, "nearest_neighbor", "asymmetric", "floor")


def look_up(
    builder: Any, data: Any, axis: ResizedAxis, index: Callable[[Any], Any], extents: Sequence[Extent] | None = None
) -> Any:
    """Take one element along an axis for every output.

    Args:
        builder: emits the bindings.
        data: a tensor.
        axis: the resized axis of ``data``.
        index: from an output's index to its element's index, int64.
        extents: the lengths that occur in ``index``; by default those of the axis.
    """
    lengths = (axis.extent, axis.size) if extents is None else extents
    indices = compute_along(builder, (axis.size,), index, "resize_indices", lengths)
    return builder.emit(relax.op.take(data, indices, axis.number))


@dataclass(frozen=True)
class Filter:
    """Weights of the elements around a coordinate, by their distance from it."""

    reach: int
    """Number of elements on either side that have a weight."""
    weight: Callable[[Any], Any]
    """From the distance, float32, which is less than the reach, to the weight."""
    excludes_outside: bool = False
    """Whether elements beyond the axis have no weight; otherwise they repeat the outermost one."""


def _linear(distance: Any) -> Any:
    return single(1) - distance


LINEAR = Filter(1, _linear)


def cubic(coefficient: float, excludes_outside: bool = False) -> Filter:
    """The cubic convolution of Keys with coefficient a."""

    def weight(distance: Any) -> Any:
        a, square = coefficient, distance * distance
        near = (single(a + 2) * distance - single(a + 3)) * square + single(1)
        far = ((single(a) * distance - single(5 * a)) * distance + single(8 * a)) * distance - single(4 * a)
        return tirx.Select(distance < single(1), near, far)

    return Filter(2, weight, excludes_outside)


def interpolate(
    builder: Any,
    data: Any,
    axis: ResizedAxis,
    coordinate: Position,
    filter_: Filter,
    extents: Sequence[Extent] | None = None,
) -> Any:
    """Resize an axis of floating-point values: outputs are weighted sums of neighbouring elements.

    Args:
        builder: emits the bindings.
        data: a tensor.
        axis: the resized axis of ``data``.
        coordinate: from an output's index to its input coordinate.
        filter_: the weights of neighbours.
        extents: the lengths that occur in ``coordinate``; by default those of the axis.
    """
    taps, reach = 2 * filter_.reach, filter_.reach
    extents = (axis.extent, axis.size) if extents is None else extents
    emit = builder.emit
    start = whole(1 - reach)

    def position(tap: Any, at: Any) -> Any:
        return tirx.Cast("int64", tirx.floor(coordinate(single(at)))) + start + tap

    def weight(tap: Any, at: Any) -> Any:
        index = position(tap, at)
        weighted = filter_.weight(tirx.abs(coordinate(single(at)) - single(index)))
        if not filter_.excludes_outside:
            return weighted
        return tirx.Select(tirx.all(index >= whole(0), index < whole(axis.extent)), weighted, single(0))

    def normalized_weight(tap: Any, at: Any) -> Any:
        total = sum((weight(whole(other), at) for other in range(taps)), start=single(0))
        return weight(tap, at) / total

    def element(tap: Any, at: Any) -> Any:
        return clamp(position(tap, at), axis.extent)

    indices = compute_along(builder, (taps, axis.size), element, "resize_indices", (axis.extent, *extents))
    weights = compute_along(
        builder, (taps, axis.size), normalized_weight if filter_.excludes_outside else weight, "resize_weights", extents
    )
    dtype = str(data.ty.dtype.dtype)
    weights = weights if dtype == "float32" else emit(relax.op.astype(weights, dtype))
    aligned = [1] * len(data.ty.shape)
    aligned[axis.number] = axis.size
    result = None
    for tap in range(taps):
        row = relax.const(tap, "int64")
        elements = emit(relax.op.take(data, emit(relax.op.take(indices, row, 0)), axis.number))
        factors = emit(relax.op.reshape(emit(relax.op.take(weights, row, 0)), aligned))
        term = emit(relax.op.multiply(elements, factors))
        result = term if result is None else emit(relax.op.add(result, term))
    return result


def compute_along(
    builder: Any, shape: tuple[Extent, ...], value: Callable[..., Any], name: str, extents: Sequence[Extent]
) -> Any:
    """A tensor whose elements are expressions of their indices.

    Args:
        builder: emits the kernel.
        shape: the tensor's.
        value: from an element's index, int64, to its expression.
        name: the kernel's.
        extents: the lengths that occur in the expression.
    """
    variables = _variables(extent for extent in extents if not is_known(extent))
    # A kernel has variables of its own. emit_te would pass them in the order of their addresses (repair `order-by-address`).
    own = {variable: tirx.Var(str(variable.name), "int64") for variable in variables}

    def with_own(expression: Any) -> Any:
        return tvm_ffi.structural_map(expression, (tvm.ir.Var, lambda variable: own.get(variable, variable)))

    tensor = te.compute([with_own(extent) for extent in shape], lambda *at: with_own(value(*map(whole, at))), name=name)
    arguments = [variable for variable in variables if not any(variable.same_as(extent) for extent in shape)]
    inputs = [own[variable] for variable in arguments]  # the kernel reads the others from the tensor's shape
    kernel = te.create_prim_func([*inputs, tensor], index_dtype_override="int64").without_attr("global_symbol")
    result = relax.TensorType(relax.ShapeExpr(shape), tensor.dtype)
    return builder.emit(relax.call_tir(builder.add_func(kernel, name), arguments, result))


def _variables(extents: Iterable[Any]) -> list[tirx.Var]:
    """The variables of extents, in the order of their first use."""
    variables: dict[tirx.Var, None] = {}
    for extent in extents:
        tvm_ffi.structural_walk(extent, (tirx.Var, lambda variable: variables.setdefault(variable)))
    return list(variables)
