"""Choose the functions that compute a number of rows for which there is no function: one that is padded, or several calls."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable


def row_ranges(sizes: Iterable[int]) -> dict[int, int]:
    """The smallest number of rows from which each function is the best one to begin with, by the function's number of rows.

    A function computes fewer rows padded, and more rows in several calls: first complete ones, and the rest by the
    function that is best for it. The best choice computes the fewest rows; a call counts as one row.
    """
    first, *others = sorted(set(sizes))
    chosen, starts = [first], [1]

    def cost(count: int) -> int:
        total = 0
        while count:
            size = chosen[bisect_right(starts, count) - 1]
            calls = max(1, count // size)
            total += calls * (size + 1)
            count = max(0, count - calls * size)
        return total

    for size in others:
        between = range(chosen[-1] + 1, size)
        starts.append(between.start + bisect_left(between, size + 1, key=cost))
        chosen.append(size)
    return dict(zip(chosen, starts, strict=True))
