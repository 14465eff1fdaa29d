import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tvmake.benchmark.result import LatencyReport, latency_report, samples_still_needed
from tvmake.config.benchmark import PROFILES, BenchmarkOptions, Measurement


def test_the_quick_profile_is_the_default():
    assert BenchmarkOptions().measurement() == PROFILES["quick"]


def test_the_mlperf_like_profile_takes_1024_single_queries_and_60_s_and_is_judged_by_p90():
    measurement = BenchmarkOptions(profile="mlperf-like").measurement()
    assert (measurement.repeat, measurement.min_duration_s, measurement.number) == (1024, 60, 1)
    assert measurement.percentile == "p90"


def test_any_field_wins_over_the_profile_even_when_it_is_zero_or_off():
    options = BenchmarkOptions(profile="mlperf-like", min_duration_s=0, profile_ops=False)
    measurement = options.measurement()
    assert (measurement.min_duration_s, measurement.profile_ops, measurement.repeat) == (0, False, 1024)


def test_every_field_of_the_measurement_can_be_set_in_the_config():
    assert set(BenchmarkOptions.model_fields) == {"profile", *Measurement.model_fields}


@pytest.mark.parametrize("options", [{"profile": "slow"}, {"repeat": 0}, {"cooldown_s": -1}, {"repeats": 3}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValidationError):
        BenchmarkOptions.model_validate(options)


def test_a_report_keeps_raw_samples_in_order_and_reads_back():
    report = latency_report(Measurement(percentile="p90"), [3.0, 1.0, 2.0], load_ms=12.5, conditions={"threads": 2})
    assert report.samples_ms == [3.0, 1.0, 2.0]
    assert report.latency_ms == pytest.approx(2.8)
    assert LatencyReport.model_validate_json(report.model_dump_json()) == report


@given(st.integers(1, 50), st.floats(0, 5), st.floats(0.01, 500))
def test_sampling_ends_once_both_count_and_duration_are_reached(repeat, min_duration_s, sample_ms):
    measurement = Measurement(repeat=repeat, min_duration_s=min_duration_s)
    samples: list[float] = []
    rounds = 0
    while count := samples_still_needed(measurement, samples):
        samples += [sample_ms] * count
        rounds += 1
    assert len(samples) >= repeat
    assert sum(samples) >= min_duration_s * 1e3 * (1 - 1e-9)
    assert len(samples) <= max(repeat, min_duration_s * 1e3 / sample_ms + 2)
    assert rounds < 25


def test_samples_of_several_runs_count_for_all_of_them():
    assert samples_still_needed(Measurement(repeat=2, number=10, min_duration_s=1), [50.0, 50.0]) == 0
    assert samples_still_needed(Measurement(repeat=2, number=1, min_duration_s=1), [50.0, 50.0]) > 0
