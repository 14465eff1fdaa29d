import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmake.report.page.charts.scale import Scale, fitting

positive = st.floats(1e-6, 1e6)


@given(st.lists(positive, min_size=1, max_size=8))
def test_a_fitting_scale_keeps_the_order_and_stays_inside(values):
    scale = fitting(values, 10, 90)
    positions = [scale.at(value) for value in sorted(values)]
    assert positions == sorted(positions)
    assert all(10 <= position <= 90 for position in positions)


def test_values_far_apart_are_shown_by_their_logarithm():
    scale = fitting([0.1, 1.0, 10.0], 0, 100)
    assert scale.is_log
    assert scale.at(1.0) == pytest.approx(50)
    assert not fitting([1.0, 2.0], 0, 100).is_log


@given(positive, st.floats(1.01, 1e5))
def test_ticks_lie_on_the_axis_and_are_neither_none_nor_a_crowd(low, factor):
    for scale in (Scale(low, low * factor), fitting([low, low * factor], 0, 100)):
        ticks = scale.ticks()
        assert 2 <= len(ticks) <= 10
        assert all(scale.low * 0.999 <= tick <= scale.high * 1.001 for tick in ticks)


def test_ticks_are_round():
    assert Scale(0, 0.083).ticks() == pytest.approx([0, 0.02, 0.04, 0.06, 0.08])
    assert Scale(1, 1000, is_log=True).ticks() == [1, 5, 20, 100, 500]
