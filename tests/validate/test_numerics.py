import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tvmake.config.validation import DEFAULT_GOALS, Goals
from tvmake.validate.numerics import Comparison, NumericsReport, compare

ELEMENTWISE = Goals(rtol=1e-4, atol=1e-5, equal=1.0, repeatable=True)
SHAPES = hnp.array_shapes(max_dims=3, max_side=5)
FINITE = st.floats(-1e6, 1e6, width=32)
ANYTHING = st.floats(width=32)


def compared(reference, got, goals=ELEMENTWISE, labels=None, name="y") -> NumericsReport:
    """Compare samples of a single output; ``labels`` is one entry per sample."""
    labels = labels or [None] * len(reference)
    triples = zip(reference, got, labels, strict=True)
    return compare(
        (({name: np.asarray(r)}, {name: np.asarray(g)}, label) for r, g, label in triples),
        goals,
    )


def missed(report: NumericsReport) -> list[str]:
    return [goal.goal for goal in report.missed]


def normal(*shape, seed=0) -> np.ndarray:
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


@given(hnp.arrays(np.float32, SHAPES, elements=ANYTHING))
def test_identical_outputs_have_no_error_and_pass_whatever_they_hold_but_nan_alone(values):
    report = compared([values], [values.copy()])
    figures = report.outputs[0]
    assert report.passed == (not np.isnan(values).all() or not values.size)
    assert (figures.max_abs, figures.mean_abs, figures.max_rel, figures.beyond_tolerance) == (0, 0, 0, 0)
    assert (figures.equal, figures.nonfinite_mismatches, figures.sqnr_db) == (1.0, 0, 200.0)
    assert math.isclose(figures.cosine, 1.0, abs_tol=1e-9)


def test_the_only_sample_is_not_called_the_worst():
    (goal,) = compared([[1.0, 2.0]], [[1.1, 2.0]], Goals(sqnr_db=90)).missed
    assert goal.reason == "27.0 dB"
    (goal,) = compared([[1.0, 2.0], [1.0, 2.0]], [[1.1, 2.0], [1.0, 2.0]], Goals(sqnr_db=90)).missed
    assert goal.reason == "sample 0 has 27.0 dB, all together 30.0"


PAIRS = SHAPES.flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.float32, shape, elements=FINITE), hnp.arrays(np.float32, shape, elements=FINITE)
    )
)


@given(PAIRS)
def test_absolute_error_and_cosine_do_not_depend_on_which_side_is_the_reference(pair):
    one, other = (compared([a], [b]).outputs[0] for a, b in (pair, pair[::-1]))
    assert (one.max_abs, one.mean_abs) == (other.max_abs, other.mean_abs)
    assert math.isclose(one.cosine, other.cosine, abs_tol=1e-12)


@given(PAIRS)
def test_closeness_agrees_with_numpy_allclose(pair):
    reference, got = (side.astype(np.float64) for side in pair)
    report = compared([reference], [got], Goals(rtol=1e-4, atol=1e-5))
    assert report.passed == np.allclose(got, reference, rtol=1e-4, atol=1e-5)


@given(
    SHAPES.flatmap(
        lambda shape: st.tuples(
            hnp.arrays(np.float64, shape, elements=st.floats()), hnp.arrays(np.float64, shape, elements=st.floats())
        )
    )
)
def test_a_report_of_any_two_arrays_is_strict_json_and_reads_back(pair):
    report = compared([pair[0], pair[1]], [pair[1], pair[1]], Goals(rtol=0.1, cosine=0.9, sqnr_db=20, max_rel=1))
    text = report.model_dump_json()
    json.loads(text, parse_constant=lambda literal: pytest.fail(f"{literal} in JSON"))
    assert NumericsReport.model_validate_json(text) == report


def test_known_error_gives_known_figures():
    reference = np.array([1.0, 2.0, -4.0, 0.0])
    got = np.array([1.0, 2.5, -4.0, 0.01])
    figures = compared([reference], [got], Goals(rtol=0.1, atol=0.02)).outputs[0]
    assert figures.max_abs == 0.5
    assert math.isclose(figures.mean_abs, 0.51 / 4)
    assert math.isclose(figures.max_rel, 0.25)
    assert math.isclose(figures.mean_rel, (0.25 + 0.01 / 0.04) / 4)
    assert math.isclose(figures.sqnr_db, 10 * math.log10(21 / 0.2501))
    assert figures.beyond_tolerance == 1
    assert math.isclose(figures.worst_excess, 0.5 / 0.22)
    assert figures.equal == 0.5


def test_figures_over_many_samples_equal_those_over_one_concatenated_array():
    reference, noise = normal(8, 3, 7), normal(8, 3, 7, seed=1) * 1e-3
    many = compared(list(reference), list(reference + noise)).outputs[0]
    whole = compared([reference], [reference + noise]).outputs[0]
    assert many.max_abs == whole.max_abs
    for figure in ("mean_abs", "cosine", "sqnr_db"):
        assert math.isclose(getattr(many, figure), getattr(whole, figure), rel_tol=1e-9)


def test_one_bad_sample_among_many_good_ones_misses_the_float16_goals():
    reference = list(normal(200, 1, 1000))
    got = [sample.astype(np.float16) for sample in reference]
    assert compared(reference, got, DEFAULT_GOALS["float16"]).passed
    got[123] = got[123] + np.float16(0.4) * normal(1, 1000, seed=5).astype(np.float16)
    report = compared(reference, got, DEFAULT_GOALS["float16"])
    assert missed(report) == ["cosine", "sqnr_db"]
    assert report.outputs[0].sqnr_db > 30
    assert report.outputs[0].worst_sample == 123
    assert "sample 123" in report.missed[1].reason


def test_a_nan_that_the_reference_does_not_have_fails_and_says_so():
    reference = normal(4, 1, 10)
    got = reference.copy()
    got[2, 0, 3] = np.nan
    report = compared(list(reference), list(got))
    assert missed(report) == ["finite"]
    assert "package: 1 NaN, 0 Inf; reference: 0 NaN, 0 Inf" in report.missed[0].reason
    assert report.outputs[0].max_abs == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_same_non_finite_element_on_both_sides_passes_with_a_warning(value):
    reference = normal(2, 1, 10)
    reference[0, 0, 0] = value
    report = compared(list(reference), list(reference.copy()))
    assert report.passed
    assert any("reference itself has" in warning for warning in report.warnings)


def test_infinities_of_opposite_sign_fail():
    assert missed(compared([[np.inf, 1.0]], [[-np.inf, 1.0]])) == ["finite"]


def test_a_reference_of_nothing_but_nan_passes_nothing():
    report = compared([[np.nan, np.nan]], [[np.nan, np.nan]])
    assert missed(report) == ["finite"]
    assert report.missed[0].reason == "all of the original's values are NaN, so nothing can be compared"


def test_a_finite_number_where_the_reference_is_nan_fails():
    assert missed(compared([[np.nan, 1.0]], [[0.0, 1.0]])) == ["finite"]


def test_any_error_against_a_reference_of_zeros_counts_as_total():
    figures = compared([np.zeros(4)], [np.array([0, 0, 1e-9, 0])]).outputs[0]
    assert (figures.max_rel, figures.sqnr_db, figures.cosine) == (1.0, -200.0, 0.0)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_float32_goals_do_not_depend_on_the_scale_of_the_outputs(scale):
    reference = normal(1, 100_000).astype(np.float64) * scale
    noise = 3e-5 * scale * normal(1, 100_000, seed=1)
    assert compared([reference], [reference + noise], DEFAULT_GOALS["float32"]).passed
    wrong = reference.copy()
    wrong[0, 777] = -wrong[0, 777]
    report = compared([reference], [wrong], DEFAULT_GOALS["float32"])
    assert missed(report)[0] == "max_abs_rms"
    assert report.missed[0].value == pytest.approx(2 * abs(reference[0, 777]) / scale, rel=0.01)


def test_integer_outputs_are_judged_by_equality_even_beyond_what_float64_tells_apart():
    reference = np.array([[2**60, 2**60 + 1, 3, 4]])
    got = np.array([[2**60, 2**60, 3, 4]])
    report = compared([reference], [got])
    assert missed(report) == ["equal"]
    assert report.outputs[0].equal == 0.75
    assert compared([reference], [got], Goals(equal=0.75, sqnr_db=100)).passed


def test_top1_and_accuracy_on_both_sides():
    reference = [np.eye(10)[[0, 1]], np.eye(10)[[2, 3]]]
    got = [np.eye(10)[[0, 1]], np.eye(10)[[2, 4]]]
    labels = [np.array([0, 1]), np.array([7, 3])]
    report = compared(reference, got, Goals(top1_agreement=0.8, top1_drop=0.2, top1=0.5), labels)
    figures = report.classification
    assert (figures.top1_agreement, figures.reference_top1, figures.top1, figures.top1_drop) == (0.75, 0.75, 0.5, 0.25)
    assert missed(report) == ["top1_agreement", "top1_drop"]
    assert report.missed[1].reason == "accuracy falls from 0.7500 to 0.5000"


def test_a_drop_of_exactly_the_bound_passes():
    scores = np.eye(2)[[0] * 200]
    got = np.eye(2)[[1] + [0] * 199]
    assert compared([scores], [got], Goals(top1_drop=0.005), [np.zeros(200, int)]).passed


def test_top5_agreement_is_the_overlap_of_the_two_sets():
    reference = np.array([[9, 8, 7, 6, 5, 4, 3, 2.0]])
    got = np.array([[8, 9, 7, 6, 1, 5, 3, 2.0]])
    figures = compared([reference], [got], labels=[np.array([4])]).classification
    assert figures.top5_agreement == pytest.approx(0.8)
    assert (figures.reference_top5, figures.top5) == (1.0, 0.0)


def test_a_row_of_nan_is_never_accurate():
    report = compared([np.eye(3)], [np.full((3, 3), np.nan)], Goals(), [np.array([0, 1, 2])])
    assert (report.classification.reference_top1, report.classification.top1) == (1.0, 0.0)
    assert report.classification.top1_agreement == 0.0


@pytest.mark.parametrize(
    ("goals", "output", "needs"),
    [
        (Goals(top1=0.5), np.eye(10), "needs labels"),
        (Goals(top1_drop=0.5), np.eye(10), "needs labels"),
        (Goals(top1_agreement=0.5), np.zeros((1, 3, 4, 4)), "needs an output [batch, classes]"),
        (Goals(top5_agreement=0.5), np.eye(4), "needs more than five classes"),
    ],
)
def test_a_goal_that_cannot_be_measured_is_missed(goals, output, needs):
    report = compared([output], [output], goals)
    assert not report.passed
    assert needs in report.missed[0].reason


def test_a_constant_network_is_called_insensitive():
    reference = [np.full((1, 10), 3.0) + 1e-6 * normal(1, 10, seed=i) for i in range(4)]
    report = compared(reference, reference)
    assert report.passed
    assert any("insensitive" in warning for warning in report.warnings)


def test_an_error_as_large_as_the_change_between_inputs_is_called_insensitive_although_the_sqnr_is_high():
    offset = 100.0
    reference = [offset + normal(1, 100, seed=i) for i in range(8)]
    got = [sample + 0.5 * normal(1, 100, seed=50 + i) for i, sample in enumerate(reference)]
    report = compared(reference, got, DEFAULT_GOALS["float16"])
    assert report.outputs[0].sqnr_db > 40
    assert any("insensitive" in warning for warning in report.warnings)


def test_an_ordinary_network_gives_no_warning():
    reference = [normal(1, 10, seed=i) for i in range(4)]
    assert compared(reference, reference).warnings == []


def test_one_sample_alone_is_warned_about():
    assert "only one sample" in compared([normal(1, 10)], [normal(1, 10)]).warnings[0]


def test_samples_of_alternating_sizes_are_compared_with_those_of_their_size():
    reference = [normal(size, 10, seed=seed) for seed, size in enumerate((1, 4, 1, 4))]
    assert compared(reference, reference).warnings == []


def test_softmax_outputs_are_noted():
    exponent = np.exp(normal(4, 1, 10))
    probabilities = list(exponent / exponent.sum(axis=-1, keepdims=True))
    assert any("softmax" in warning for warning in compared(probabilities, probabilities).warnings)


def test_two_runs_that_differ_in_one_bit_miss_repeatable():
    first = {"y": normal(1, 10)}
    second = {"y": np.nextafter(first["y"], np.float32(9), dtype=np.float32)}
    comparison = Comparison(ELEMENTWISE)
    comparison.add(first, first)
    comparison.add_repeat(first, second)
    comparison.add_repeat(first, first)
    assert missed(comparison.report()) == ["repeatable"]
    assert comparison.report().repeatable is False


def test_nan_repeats_itself():
    comparison = Comparison(ELEMENTWISE)
    outputs = {"y": np.array([np.nan, 1.0], np.float32)}
    comparison.add(outputs, outputs)
    comparison.add_repeat(outputs, {"y": outputs["y"].copy()})
    assert comparison.report().repeatable is True


def test_a_missing_output_and_a_wrong_shape_fail():
    comparison = Comparison(ELEMENTWISE)
    comparison.add({"a": np.zeros((1, 2)), "b": np.zeros(3)}, {"a": np.zeros((2, 1))})
    report = comparison.report()
    assert [(goal.goal, goal.output) for goal in report.missed] == [("signature", "a"), ("signature", "b")]
    assert "shape [2, 1], the reference has [1, 2]" in report.missed[0].reason


def test_nothing_compared_is_a_failure():
    assert missed(Comparison(ELEMENTWISE).report()) == ["samples"]
    assert not compare([({}, {}, None)], ELEMENTWISE).passed


def test_float16_accumulation_passes_its_goals_and_misses_those_of_float32_accumulation():
    """A chain of 3×3×512-like sums, done with numpy in float16 and in float32."""
    exact, half, mixed = [], [], []
    for seed in range(3):
        x, weight = normal(16, 4608, seed=seed), normal(4608, 8, seed=100 + seed) / 68
        exact.append(x @ weight)
        x16, w16 = x.astype(np.float16), weight.astype(np.float16)
        products = x16[:, :, None] * w16[None]
        half.append(np.cumsum(products, axis=1, dtype=np.float16)[:, -1])
        mixed.append((x16.astype(np.float32) @ w16.astype(np.float32)).astype(np.float16))
    assert compared(exact, mixed, DEFAULT_GOALS["float16_acc32"]).passed
    assert compared(exact, half, DEFAULT_GOALS["float16"]).passed
    assert "sqnr_db" in missed(compared(exact, half, Goals(sqnr_db=60)))
