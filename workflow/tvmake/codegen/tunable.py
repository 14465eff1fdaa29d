"""Decide whether a kernel is worth tuning, and estimate its work, also with dynamic dimensions."""

from collections.abc import Callable, Sequence

import tvm

from tvmake.artifact.size_points import SizePoint
from tvmake.codegen.kernel_analysis import (
    COMES_SCHEDULED,
    FIXED_LOOPS,
    flops,
    has_fixed_shapes,
    is_reshape,
    leaf_blocks,
    too_little_work,
    why_trivial,
    work,
)
from tvmake.ir.dimensions import dimension_variables, dynamic_dimensions, fix_dimensions
from tvmake.targets.backends import backend_of

SCALARS = "it has scalar arguments, whose values are unknown"
SIZED_BY_DATA = "its sizes depend on the data"
SAME_NAMES = "two of its dimensions have the same name"
NO_RULE = "no rule schedules it, and candidates of kernels with dynamic dimensions are variants of a rule's schedule"


def why_not_tuned(
    function: "tvm.tirx.PrimFunc",
    target: "tvm.target.Target",
    points: Sequence[SizePoint] = (),
    *,
    has_rule: bool | None = None,
) -> str | None:
    """Why a kernel is not tuned; None if it is worth tuning.

    Args:
        points: sizes of its dynamic dimensions.
        has_rule: whether a rule schedules it; None to try.
    """
    if has_fixed_shapes(function):
        return why_trivial(function)
    if function.attrs and function.attrs.get("tirx.is_scheduled"):
        return COMES_SCHEDULED
    backend = backend_of(target)
    if backend.why_dynamic_untuned is not None:
        return backend.why_dynamic_untuned
    if not all(hasattr(parameter.ty, "shape") for parameter in function.params):
        return SCALARS
    if (reason := is_reshape(function)) is not None:
        return reason
    if not points:
        return SIZED_BY_DATA
    if len(dimension_variables(function)) != len(dynamic_dimensions(function)):
        return SAME_NAMES
    if not leaf_blocks(function):
        return FIXED_LOOPS
    if (reason := too_little_work(function, mean(work, function, points))) is not None:
        return reason
    if has_rule is None:
        has_rule = _has_rule(function, target, points)
    return None if has_rule else NO_RULE


def _has_rule(function: "tvm.tirx.PrimFunc", target: "tvm.target.Target", points: Sequence[SizePoint]) -> bool:
    """Whether a rule schedules a kernel with dynamic dimensions in a way that has variants."""
    backend = backend_of(target)
    if backend.has_ranges:
        kernels = backend.ranged_kernels(function, target, [point.sizes for point in points])
        return next(iter(kernels), None) is not None
    return backend.schedule_by_rule(function, target) is not None


def mean_flops(function: "tvm.tirx.PrimFunc", points: Sequence[SizePoint]) -> float:
    """Arithmetic operations of one call (:func:`flops`); with dynamic dimensions, the weighted mean over the points."""
    return mean(flops, function, points)


def mean(
    measure: Callable[["tvm.tirx.PrimFunc"], float], function: "tvm.tirx.PrimFunc", points: Sequence[SizePoint]
) -> float:
    """A measure of a kernel; with dynamic dimensions, the weighted mean over the points."""
    if has_fixed_shapes(function) or not points:
        return measure(function)
    names = dynamic_dimensions(function)
    return sum(point.weight * measure(fix_dimensions(function, point.sizes, names)) for point in points)
