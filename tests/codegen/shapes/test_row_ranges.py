"""Which function computes a number of rows for which there is no function."""

import pytest

from tvmake.codegen.shapes.row_ranges import row_ranges


@pytest.mark.parametrize(
    ("sizes", "starts"),
    [
        ([8], {8: 1}),
        ([8, 1], {1: 1, 8: 5}),  # 4 rows in 4 calls, 5 rows padded
        ([1, 2, 4, 8], {1: 1, 2: 2, 4: 3, 8: 7}),
        ([4, 32], {4: 1, 32: 25}),
        ([1, 2**31 - 1], {1: 1, 2**31 - 1: 2**30}),
    ],
)
def test_rows_are_split_until_padding_computes_less(sizes: list[int], starts: dict[int, int]):
    assert row_ranges(sizes) == starts


@pytest.mark.parametrize("sizes", [(1, 8), (2, 3, 7), (3, 5, 8, 20)])
def test_no_other_choice_computes_much_less(sizes: tuple[int, ...]):
    starts, least = row_ranges(sizes), [0]
    for count in range(1, 100):
        least.append(min(size + 1 + least[max(0, count - size)] for size in sizes))
        rest, cost = count, 0
        while rest > 0:
            size = max(size for size in sizes if starts[size] <= rest)
            rest, cost = rest - size, cost + size + 1
        assert cost <= 1.3 * least[count]
