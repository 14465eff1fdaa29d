import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmake.benchmark.statistics import compare_latency, count_outliers, latency_statistics

SAMPLES = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=50)


def measured(ms: float, count: int = 100, spread: float = 0.01, seed: int = 0) -> list[float]:
    return list(ms * (1 + spread * np.random.RandomState(seed).standard_normal(count)))


def test_figures_of_known_samples():
    figures = latency_statistics([1.0, 2.0, 3.0, 4.0, 10.0])
    assert (figures.samples, figures.mean_ms, figures.min_ms, figures.max_ms) == (5, 4.0, 1.0, 10.0)
    assert figures.std_ms == pytest.approx(statistics.stdev([1, 2, 3, 4, 10]))
    assert figures.cv == pytest.approx(figures.std_ms / 4)
    assert (figures.p50_ms, figures.p90_ms) == (3.0, pytest.approx(7.6))
    assert figures.p99_ms == pytest.approx(9.76)
    assert figures.mad_ms == 1.0
    assert figures.percentile_ms("p90") == figures.p90_ms


@given(SAMPLES)
def test_figures_are_ordered_and_finite(samples):
    figures = latency_statistics(samples)
    slack = 1e-9 * figures.max_ms
    ordered = [figures.min_ms, figures.p50_ms, figures.p90_ms, figures.p99_ms, figures.max_ms]
    assert all(low <= high + slack for low, high in itertools.pairwise(ordered))
    assert figures.min_ms - slack <= figures.mean_ms <= figures.max_ms + slack
    assert all(math.isfinite(value) for value in (figures.std_ms, figures.cv, figures.mad_ms))
    assert 0 <= figures.outliers < max(figures.samples, 1)


@given(SAMPLES, st.floats(0.1, 10))
def test_times_scale_and_ratios_do_not(samples, factor):
    one, scaled = latency_statistics(samples), latency_statistics([sample * factor for sample in samples])
    assert scaled.p90_ms == pytest.approx(one.p90_ms * factor)
    assert scaled.cv == pytest.approx(one.cv, abs=1e-6)


def test_one_sample_has_no_spread():
    figures = latency_statistics([2.5])
    assert (figures.p50_ms, figures.p99_ms, figures.std_ms, figures.mad_ms, figures.drift) == (2.5, 2.5, 0, 0, None)
    assert not figures.is_noisy


@pytest.mark.parametrize("samples", [[], [1.0, -1.0], [1.0, math.nan], [math.inf]])
def test_samples_that_are_no_latencies_are_refused(samples):
    with pytest.raises(ValueError):
        latency_statistics(samples)


def test_a_quiet_measurement_is_not_noisy_and_a_wild_one_says_by_how_much():
    assert latency_statistics(measured(5, spread=0.01)).noise == []
    wild = latency_statistics(measured(5, spread=0.2))
    assert "vary by" in wild.noise[0]
    assert not latency_statistics(measured(5, spread=0.2), noise_cv=0.5).is_noisy


def test_a_large_drift_is_reported_as_a_factor():
    assert "the last quarter takes 4 times as long as the first" in latency_statistics([1.0] * 10 + [4.0] * 10).noise


def test_a_device_that_throttles_is_noisy_because_of_its_drift():
    figures = latency_statistics(list(np.linspace(10, 10.8, 100)))
    assert figures.cv < 0.05
    assert figures.drift == pytest.approx(0.06, abs=0.01)
    assert "slower than the first" in figures.noise[0]


def test_outliers_are_counted_by_the_modified_z_score():
    samples = [10.0, 10.1, 9.9, 10.05, 9.95, 10.0, 30.0]
    assert count_outliers(samples) == 1
    assert count_outliers(samples[:-1]) == 0


def test_one_different_sample_among_equal_ones_is_an_outlier():
    assert count_outliers([1.0] * 20 + [5.0]) == 1
    assert count_outliers([1.0] * 20) == 0


def test_equal_measurements_compare_as_the_same():
    result = compare_latency(measured(5), measured(5, seed=1))
    assert result.verdict == "same"
    assert result.low < 1 < result.high


def test_a_real_speed_up_is_called_faster_and_its_reverse_slower():
    faster = compare_latency(measured(5), measured(4, seed=1))
    slower = compare_latency(measured(4, seed=1), measured(5))
    assert (faster.verdict, slower.verdict) == ("faster", "slower")
    assert faster.low < 0.8 < faster.high
    assert faster.ratio == pytest.approx(1 / slower.ratio)


def test_a_significant_change_below_the_threshold_is_still_the_same():
    result = compare_latency(measured(5, spread=0.001), measured(5.05, spread=0.001, seed=1))
    assert result.low > 1
    assert result.verdict == "same"
    assert compare_latency(measured(5, spread=0.001), measured(5.05, spread=0.001, seed=1), 0.005).verdict == "slower"


def test_a_large_change_within_the_noise_is_the_same():
    result = compare_latency(measured(5, 5, spread=0.4), measured(5.5, 5, spread=0.4, seed=3))
    assert abs(result.ratio - 1) > result.threshold
    assert result.verdict == "same"


def test_the_tail_can_be_slower_where_the_median_is_the_same():
    baseline = measured(5, 200)
    candidate = [sample * (2 if index % 5 == 0 else 1) for index, sample in enumerate(measured(5, 200, seed=1))]
    assert compare_latency(baseline, candidate).verdict == "same"
    assert compare_latency(baseline, candidate, percentile="p90").verdict == "slower"


def test_a_comparison_is_repeatable():
    assert compare_latency(measured(5), measured(4.9)) == compare_latency(measured(5), measured(4.9))
