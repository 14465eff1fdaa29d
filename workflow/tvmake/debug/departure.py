"""Two computations of one network, value by value: where the second departs from the first.

Rewrites rename, fuse and split operators, so values are told by what they hold, not by their names: a value of one graph is
*found* in the other where that has a tensor with the same numbers, up to a bound and the order of its axes. What is not found is no
fault in itself (it may have been fused away, or be half of an operator of the other side); it is one where nothing that
is computed from it is found either, though all that it is computed from is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

MOST_AXES = 5
"""Of tensors whose axes are tried in every order."""

MOST_STEPS = 0.01
"""Share of a tensor's integers that may lie on the edge between two steps; more are an offset."""

TUPLE = "Tuple"
"""What puts several outputs together, among operators."""

LARGEST_BOUND = 0.1
"""Two values further apart than this share of the RMS are not the same, at any precision."""

SHARE = 0.1
"""A value departs where it is off by this share of the outputs' error: faults grow on their way."""

FACTOR = "multiply"
"""What scales a product of integers."""

LARGEST_FLOAT16 = 65504.0


@dataclass(frozen=True)
class Value:
    """A tensor that a graph computes."""

    name: str
    operator: str
    """What computes it, in the graph's own words (``Conv``, ``relax.nn.relu``, ``aten.add.Tensor``)."""
    inputs: tuple[str, ...]
    """Names of the values it is computed from; constants and the network's inputs need not be among them."""
    array: np.ndarray


@dataclass(frozen=True)
class Departure:
    """The first value that is not found in the other graph, and nothing after it."""

    value: Value
    nearest: np.ndarray | None
    """The tensor of that shape in the other graph which comes nearest; None where there is none."""
    error: float
    """Largest difference to it, as a share of the value's RMS; infinite where there is none, or where either is not finite."""

    @property
    def steps(self) -> int:
        """Of integers that rounding makes: how many are a step beside those of the other graph, where these are few and all else is
        equal, so that what is rounded lies on the edge between two steps; else 0."""
        if self.nearest is None or self.value.array.dtype.kind not in "iu" or self.nearest.dtype.kind not in "iu":
            return 0
        apart = np.abs(self.value.array.astype(np.int64) - self.nearest.astype(np.int64))
        count = int(np.count_nonzero(apart))
        return count if apart.max(initial=0) <= 1 and count <= max(1, apart.size * MOST_STEPS) else 0

    @property
    def overflow(self) -> str:
        """Of a value with elements that are no numbers where the other graph's are: what is wrong; else empty."""
        if np.isfinite(self.value.array).all():
            return ""
        if self.nearest is None:
            ends = f"; float16 ends at {LARGEST_FLOAT16:g}" if self.value.array.dtype == np.float16 else ""
            return f"it has values that are no numbers{ends}"
        largest = float(np.abs(np.asarray(self.nearest, np.float64)).max())
        if largest <= LARGEST_FLOAT16:
            return "it has values that are no numbers, where the float32 network has some"
        return f"its values reach {largest:.3g}, float16 ends at {LARGEST_FLOAT16:g}"


def departure_of_error(
    values: Sequence[Value], others: Sequence[np.ndarray], error: float | None, noise: float
) -> Departure | None:
    """The first value off by more than a share of the outputs' error; by less where there is none.

    Args:
        values: of one graph, in the order that they are computed.
        others: the values of the other.
        error: of the outputs, as a share of their RMS; None where it is no number.
        noise: what rounding alone may make of two values that are the same.
    """
    bound = LARGEST_BOUND if error is None else min(max(error * SHARE, noise), LARGEST_BOUND)
    while True:
        found = first_departure(values, others, bound)
        if found or bound <= noise:
            return found
        bound = max(bound / 3, noise)


def first_departure(values: Sequence[Value], others: Sequence[np.ndarray], bound: float) -> Departure | None:
    """The first value where the other graph departs.

    Args:
        values: of one graph, in the order that they are computed.
        others: the values of the other.
        bound: the largest difference of two values that are the same, as a share of the RMS.

    Returns:
        None where a last value is found for each that is not.
    """
    pool = _Pool(others)
    nearest = {value.name: pool.nearest(value.array) for value in values}
    found = {name for name, (error, _) in nearest.items() if error <= bound}
    leads_to_found = set(found)
    for value in reversed(values):
        if value.name in leads_to_found:
            leads_to_found.update(value.inputs)
    for value in values:
        if value.name not in leads_to_found:
            error, other = nearest[value.name]
            scaled = _scaled(value, values)
            if scaled is not None and nearest[scaled.name][0] < error:
                error, other = nearest[scaled.name]
                value = replace(value, name=scaled.name, array=scaled.array)
            return Departure(value, other, error)
    return None


def _scaled(value: Value, values: Sequence[Value]) -> Value | None:
    """What a constant factor makes of a value that nothing else takes.

    Products of integers are scaled after them, and the other graph may have them with their scales alone.
    """
    names = {one.name for one in values}
    takers = [one for one in values if value.name in one.inputs]
    if (
        len(takers) != 1
        or not takers[0].operator.endswith(FACTOR)
        or names.intersection(takers[0].inputs) != {value.name}
    ):
        return None
    return takers[0]


def difference(expected: np.ndarray, got: np.ndarray) -> float:
    """Largest difference of two arrays of one shape, as a share of the first one's RMS.

    Values that are not finite are equal where the other has the same, else the difference is infinite.
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


class _Pool:
    """Arrays, looked up by what they hold."""

    def __init__(self, arrays: Sequence[np.ndarray]):
        self._by_extents: dict[tuple[int, ...], list[np.ndarray]] = {}
        for array in arrays:
            self._by_extents.setdefault(_extents(array.shape), []).append(np.asarray(array))

    def nearest(self, array: np.ndarray) -> tuple[float, np.ndarray | None]:
        """The smallest difference to any of them, and which it is, with its axes in the array's order."""
        array = np.asarray(array)
        best: tuple[float, np.ndarray | None] = (float("inf"), None)
        least = (True, float("inf"))
        for other in self._by_extents.get(_extents(array.shape), ()):
            for turned in _turned(other, array.shape):
                error = difference(array, turned)
                distance = (False, error) if np.isfinite(error) else (True, _difference_of_numbers(array, turned))
                if distance < least:
                    least, best = distance, (error, turned)
                if error == 0:
                    return best
        return best


def _difference_of_numbers(array: np.ndarray, other: np.ndarray) -> float:
    """The difference where both are finite: what overflows in one is told by the rest."""
    both = np.isfinite(array) & np.isfinite(other)
    return difference(array[both], other[both]) if both.any() else float("inf")


def _extents(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(extent for extent in shape if extent != 1))


def _turned(array: np.ndarray, shape: tuple[int, ...]) -> list[np.ndarray]:
    """An array with its axes in each order that gives a shape, axes of extent 1 apart."""
    squeezed = array.squeeze()
    wanted = tuple(extent for extent in shape if extent != 1)
    axes = range(squeezed.ndim)
    orders = permutations(axes) if squeezed.ndim <= MOST_AXES else [tuple(axes)]
    return [
        squeezed.transpose(order).reshape(shape)
        for order in orders
        if tuple(squeezed.shape[axis] for axis in order) == wanted
    ]


def last_computed(values: Sequence[Value]) -> Value:
    """What is named where no value departs more than others: the last one that an operator computes."""
    return next((value for value in reversed(values) if value.operator != TUPLE), values[-1])


def has_nan(array: np.ndarray) -> bool:
    """Whether an element is NaN; infinities, as masks have them, are none."""
    return array.dtype.kind in "fc" and bool(np.isnan(array).any())


def has_no_numbers(array: np.ndarray) -> bool:
    """Whether there are elements, and all are NaN."""
    return array.size > 0 and array.dtype.kind in "fc" and bool(np.isnan(array).all())
