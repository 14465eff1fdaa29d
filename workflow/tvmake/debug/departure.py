"""Compare two computations of a network value by value, and locate the first departure.

Rewrites rename, fuse and split operators, so values are identified by content, not by name: a value of one graph is *found* in
the other if that has a tensor with the same elements, up to a bound and the order of its axes. A value that is not found is not
a fault in itself (it may have been fused away, or be half of an operator of the other side). It is a fault if no value computed
from it is found, although all values that it is computed from are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

MOST_AXES = 5
"""The maximum rank of tensors whose axes are tried in every order."""

MOST_STEPS = 0.01
"""The maximum share of a tensor's integers that may differ by one step; more indicate an offset."""

TUPLE = "Tuple"
"""The operator that combines several outputs."""

LARGEST_BOUND = 0.1
"""Values that differ by more than this share of the RMS are different, at any precision."""

SHARE = 0.1
"""A value departs if it is off by this share of the outputs' error: faults grow along the graph."""

FACTOR = "multiply"
"""The operator that scales an integer matmul."""

LARGEST_FLOAT16 = 65504.0


@dataclass(frozen=True)
class Value:
    """A tensor of a graph."""

    name: str
    operator: str
    """Its operator, in the graph's own names (``Conv``, ``relax.nn.relu``, ``aten.add.Tensor``)."""
    inputs: tuple[str, ...]
    """Names of its operands; constants and the network's inputs may be missing."""
    array: np.ndarray


@dataclass(frozen=True)
class Departure:
    """The first value that is not found in the other graph, with no later value found."""

    value: Value
    nearest: np.ndarray | None
    """The nearest tensor of that shape in the other graph; None without one."""
    error: float
    """Largest difference to it, relative to the value's RMS; infinite without one, or if either is not finite."""

    @property
    def steps(self) -> int:
        """For rounded integers: the number that differ by one step from the other graph's, if these are few and all others are equal, so
        that the exact values are on the edge between two steps; else 0."""
        if self.nearest is None or self.value.array.dtype.kind not in "iu" or self.nearest.dtype.kind not in "iu":
            return 0
        apart = np.abs(self.value.array.astype(np.int64) - self.nearest.astype(np.int64))
        count = int(np.count_nonzero(apart))
        return count if apart.max(initial=0) <= 1 and count <= max(1, apart.size * MOST_STEPS) else 0

    @property
    def overflow(self) -> str:
        """For a value with elements that are not finite while the other graph's are: the problem; else empty."""
        if np.isfinite(self.value.array).all():
            return ""
        if self.nearest is None:
            ends = f"; float16 ends at {LARGEST_FLOAT16:g}" if self.value.array.dtype == np.float16 else ""
            return f"it has values that are not finite{ends}"
        largest = float(np.abs(np.asarray(self.nearest, np.float64)).max())
        if largest <= LARGEST_FLOAT16:
            return "it has values that are not finite, unlike the float32 network"
        return f"its values reach {largest:.3g}, float16 ends at {LARGEST_FLOAT16:g}"


def departure_of_error(
    values: Sequence[Value], others: Sequence[np.ndarray], error: float | None, noise: float
) -> Departure | None:
    """The first value that is off by more than a share of the outputs' error; by less if there is none.

    Args:
        values: one graph's values in order of computation.
        others: the other graph's values.
        error: the outputs' error, relative to their RMS; None if not finite.
        noise: the difference that rounding alone causes between equal values.
    """
    bound = LARGEST_BOUND if error is None else min(max(error * SHARE, noise), LARGEST_BOUND)
    while True:
        departure = first_departure(values, others, bound)
        if departure or bound <= noise:
            return departure
        bound = max(bound / 3, noise)


def first_departure(values: Sequence[Value], others: Sequence[np.ndarray], bound: float) -> Departure | None:
    """The first value at which the other graph departs.

    Args:
        bound: the largest difference of equal values, relative to the RMS.

    Returns:
        None if every value that is not found leads to one that is.
    """
    pool = ValuePool(others)
    nearest = {value.name: pool.nearest(value.array) for value in values}
    found_names = {name for name, (error, _) in nearest.items() if error <= bound}
    leads_to_found = set(found_names)
    for value in reversed(values):
        if value.name in leads_to_found:
            leads_to_found.update(value.inputs)
    for value in values:
        if value.name not in leads_to_found:
            error, nearest_array = nearest[value.name]
            scaled = _find_scaled(value, values)
            if scaled is not None and nearest[scaled.name][0] < error:
                error, nearest_array = nearest[scaled.name]
                value = replace(value, name=scaled.name, array=scaled.array)
            return Departure(value, nearest_array, error)
    return None


def _find_scaled(value: Value, values: Sequence[Value]) -> Value | None:
    """The value after scaling by a constant, if nothing else uses the unscaled value.

    Integer matmuls are scaled afterwards, and the other graph may contain only the scaled values.
    """
    names = {value.name for value in values}
    takers = [user for user in values if value.name in user.inputs]
    if (
        len(takers) != 1
        or not takers[0].operator.endswith(FACTOR)
        or names.intersection(takers[0].inputs) != {value.name}
    ):
        return None
    return takers[0]


def difference(expected: np.ndarray, got: np.ndarray) -> float:
    """Largest difference of two arrays of one shape, relative to the first one's RMS.

    Values that are not finite are equal if both arrays have the same; else the difference is infinite.
    """
    want, have = (np.asarray(array, np.float64) for array in (expected, got))
    finite = np.isfinite(want)
    if not np.array_equal(want[~finite], have[~finite], equal_nan=True) or not np.isfinite(have[finite]).all():
        return float("inf")
    want, have = want[finite], have[finite]
    if not want.size:
        return 0.0
    worst = float(np.abs(want - have).max())
    scale = float(np.sqrt(np.mean(np.square(want))))
    return 0.0 if worst == 0 else worst / scale if scale else float("inf")


class ValuePool:
    """Arrays, searched by content."""

    def __init__(self, arrays: Sequence[np.ndarray]):
        self._by_extents: dict[tuple[int, ...], list[np.ndarray]] = {}
        for array in arrays:
            self._by_extents.setdefault(_extents(array.shape), []).append(np.asarray(array))

    def nearest(self, array: np.ndarray) -> tuple[float, np.ndarray | None]:
        """The smallest difference to any of them, and that array, with its axes in the argument's order."""
        array = np.asarray(array)
        best: tuple[float, np.ndarray | None] = (float("inf"), None)
        least = (True, float("inf"))
        for candidate in self._by_extents.get(_extents(array.shape), ()):
            for view in _transpositions(candidate, array.shape):
                error = difference(array, view)
                distance = (False, error) if np.isfinite(error) else (True, _difference_of_numbers(array, view))
                if distance < least:
                    least, best = distance, (error, view)
                if error == 0:
                    return best
        return best

    def noise(self, array: np.ndarray) -> float:
        """The smallest noise of an array relative to any of them: RMS of the difference / RMS, infinite without one of its extents.

        Integers may be scaled and shifted, as quantised values are.
        """
        views = (
            view
            for candidate in self._by_extents.get(_extents(np.shape(array)), ())
            for view in _transpositions(candidate, np.shape(array))
        )
        return min((_noise(view, array) for view in views), default=float("inf"))


def _noise(expected: np.ndarray, got: np.ndarray) -> float:
    want, have = (np.asarray(array, np.float64).ravel() for array in (expected, got))
    finite = np.isfinite(want)
    want, have = want[finite], have[finite]
    if not want.size or not np.isfinite(have).all():
        return float("inf")
    if got.dtype.kind in "iu" and expected.dtype.kind == "f" and np.ptp(have):
        slope, offset = np.polyfit(have, want, 1)
        have = slope * have + offset
    scale = float(np.sqrt(np.mean(np.square(want))))
    error = float(np.sqrt(np.mean(np.square(want - have))))
    return error / scale if scale else (0.0 if error == 0 else float("inf"))


def _difference_of_numbers(array: np.ndarray, other: np.ndarray) -> float:
    """The difference where both are finite; an overflow in one is judged by the other elements."""
    both = np.isfinite(array) & np.isfinite(other)
    return difference(array[both], other[both]) if both.any() else float("inf")


def _extents(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(extent for extent in shape if extent != 1))


def _transpositions(array: np.ndarray, shape: tuple[int, ...]) -> list[np.ndarray]:
    """An array with its axes in each order that gives a shape, ignoring axes of size 1."""
    squeezed = array.squeeze()
    target_shape = tuple(extent for extent in shape if extent != 1)
    axes = range(squeezed.ndim)
    orders = permutations(axes) if squeezed.ndim <= MOST_AXES else [tuple(axes)]
    return [
        squeezed.transpose(order).reshape(shape)
        for order in orders
        if tuple(squeezed.shape[axis] for axis in order) == target_shape
    ]


def last_computed(values: Sequence[Value]) -> Value:
    """The last value computed by an operator, which is reported if no value departs more than others."""
    return next((value for value in reversed(values) if value.operator != TUPLE), values[-1])


def has_nan(array: np.ndarray) -> bool:
    """Whether an element is NaN; infinities, as in masks, are not."""
    return array.dtype.kind in "fc" and bool(np.isnan(array).any())


def is_all_nan(array: np.ndarray) -> bool:
    """Whether there are elements, and all are NaN."""
    return array.size > 0 and array.dtype.kind in "fc" and bool(np.isnan(array).all())
