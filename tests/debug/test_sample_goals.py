"""Goals that a package meets, written for its config."""

from tvmake.debug.sample_goals import met_goals
from tvmake.validate.verdict import MissedGoal


def missed(goal: str, value: float | None = None) -> MissedGoal:
    return MissedGoal(goal=goal, value=value, reason="")


def test_bounds_are_rounded_to_where_they_hold_and_the_worst_output_counts():
    found = [missed("sqnr_db", 38.96), missed("sqnr_db", 36.94), missed("max_abs_rms", 0.0213)]
    expected = "`models: {digits: {goals: {per_precision: {float32: {sqnr_db: 36, max_abs_rms: 0.022}}}}}`"
    assert met_goals("digits/small/cpu", "float32", found) == expected


def test_tolerances_have_no_figure_and_are_dropped():
    assert "{rtol: null, atol: null}" in met_goals("digits/small/cpu", "float32", [missed("allclose", 3.0)])
