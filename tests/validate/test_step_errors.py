"""Errors by step of a sequence, and the warning when they grow."""

import numpy as np
import pytest

from tvmake.config.validation import Goals
from tvmake.validate.numerics import Comparison
from tvmake.validate.step_errors import StepErrors, describe_growth


def test_each_step_has_the_error_of_all_sequences_in_the_worst_output():
    errors = StepErrors(steps=2)
    exact = np.ones(10)
    for scale in (0.1, 0.01, 0.1, 0.01):
        errors.add({"a": exact, "b": exact}, {"a": exact, "b": exact + scale})
    assert errors.sqnr_db == pytest.approx([20, 40])


def test_values_that_are_not_finite_and_outputs_of_other_shapes_are_left_out():
    errors = StepErrors(steps=0)
    errors.add({"a": np.array([1.0, np.inf]), "b": np.ones(2)}, {"a": np.array([1.1, np.inf]), "b": np.ones(3)})
    assert errors.sqnr_db == pytest.approx([20])


@pytest.mark.parametrize(
    ("decibels", "warns"),
    [
        ([60 - step for step in range(40)], True),
        ([60.0] * 40, False),
        ([60.0] * 30 + [45.0] * 10, True),
        ([60.0] * 30 + [55.0] * 10, False),
        ([150 - step for step in range(60)], False),  # rounding adds up, far below the outputs
        ([60 - 10 * step for step in range(7)], False),  # too short to tell
        ([], False),
    ],
)
def test_growth_is_a_loss_from_the_first_quarter_to_the_last(decibels: list[float], warns: bool):
    assert describe_growth(decibels).startswith("errors grow from step to step: ") is warns


def test_a_report_has_the_errors_of_steps_only_for_states():
    comparison, plain = Comparison(Goals(), steps=16), Comparison(Goals())
    for step in range(32):
        expected = np.random.default_rng(step).uniform(1, 2, 100)
        got = expected * (1 + 1e-3 * 1.3 ** (step % 16))
        comparison.add({"y": expected}, {"y": got})
        plain.add({"y": expected}, {"y": got})
    report = comparison.report()
    assert len(report.step_sqnr_db) == 16
    assert report.step_sqnr_db == sorted(report.step_sqnr_db, reverse=True)
    assert report.warnings == [describe_growth(report.step_sqnr_db)]
    assert "step_sqnr_db" not in plain.report().model_dump()
