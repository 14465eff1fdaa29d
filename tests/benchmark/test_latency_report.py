from pathlib import Path

import pytest
from pydantic import ValidationError

from tvmake.benchmark.result import LatencyReport, latency_report
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
    assert set(BenchmarkOptions.model_fields) == {"profile", "baseline", *Measurement.model_fields}


@pytest.mark.parametrize("options", [{"profile": "slow"}, {"repeat": 0}, {"cooldown_s": -1}, {"repeats": 3}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValidationError):
        BenchmarkOptions.model_validate(options)


def test_a_report_keeps_raw_samples_in_order_and_reads_back():
    report = latency_report(Measurement(percentile="p90"), [3.0, 1.0, 2.0], load_ms=12.5, conditions={"threads": 2})
    assert report.samples_ms == [3.0, 1.0, 2.0]
    assert report.latency_ms == pytest.approx(2.8)
    assert LatencyReport.model_validate_json(report.model_dump_json()) == report


@pytest.mark.parametrize("sample", [-1.0, 1e300, float("nan"), float("inf")])
def test_samples_that_nobody_measured_are_not_read(sample: float):
    said = latency_report(Measurement(), [3.0, 1.0]).model_dump() | {"samples_ms": [1.0, sample]}
    with pytest.raises(ValidationError, match="samples_ms"):
        LatencyReport.model_validate(said)


def test_the_table_in_the_docs_has_the_profiles():
    text = (Path(__file__).parents[2] / "docs/guides/benchmark.md").read_text()
    rows = [
        line for line in text.partition("## Profiles")[2].partition("## ")[0].splitlines() if line.startswith("| `")
    ]
    assert len(rows) == len(Measurement.model_fields)
    for row in rows:
        name, cells = row.split("`")[1], [cell.strip() for cell in row.split("|")[2:-1]]
        for profile, cell in zip(("quick", "mlperf-like"), cells, strict=True):
            value = getattr(PROFILES[profile], name)
            spelled = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
            assert cell == spelled if isinstance(spelled, str) else float(cell) == spelled, (profile, name)
