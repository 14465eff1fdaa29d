import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmake.report.page.charts.treemap import ASPECT, Cell, layout, treemap_svg


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=40))
def test_areas_are_the_shares_and_rectangles_fill_the_map_without_lying_on_each_other(shares):
    shares = sorted(shares, reverse=True)
    positions = layout(shares)
    assert [position.width * position.height / 1e4 for position in positions] == pytest.approx(
        [s / sum(shares) for s in shares]
    )
    for position in positions:
        assert -1e-6 <= position.x <= position.x + position.width <= 100 + 1e-6
        assert -1e-6 <= position.y <= position.y + position.height <= 100 + 1e-6
    for number, one in enumerate(positions):
        for other in positions[:number]:
            across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
            assert min(across, down) < 1e-6


def test_equal_shares_are_nearly_square():
    assert all(1 / 2 <= position.width * ASPECT / position.height <= 2 for position in layout([1.0] * 12))


def test_kernels_that_take_next_to_nothing_are_drawn_as_one():
    svg = treemap_svg([Cell("conv", 0.99, "tuned", ""), *(Cell(f"k{n}", 0.001, "rule", "") for n in range(10))], "map")
    assert svg.count("<rect") == 2
    assert "10 others" in svg
