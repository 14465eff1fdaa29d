"""Goals of latency, memory and size."""

import numpy as np
import pytest
from pydantic import ValidationError

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.benchmark.baseline.result import Baseline, NoBaseline
from tvmake.benchmark.goals import missed_performance
from tvmake.benchmark.result import Latency, latency_report
from tvmake.benchmark.statistics import latency_statistics
from tvmake.config.benchmark import Measurement
from tvmake.config.validation import Goals, PrecisionGoals, goals_for

HERE = Fingerprint(kind="cpu", soc="CPU", cores=2, memory_bytes=1, os="Linux", runtime="tvm")


def latency(baseline_ms: float | None = None, problem: str | None = None, **fields) -> Latency:
    """100 samples of 1 to 100 ms."""
    baseline: Baseline | NoBaseline | None = NoBaseline(problem=problem) if problem else None
    if baseline_ms is not None:
        taken = [baseline_ms] * 20
        baseline = Baseline(
            framework="f 1", threads=1, load_ms=1, first_run_ms=1, number=1, warmup_ms=[], samples_ms=taken,
            statistics=latency_statistics(taken),
        )  # fmt: skip
    report = latency_report(Measurement(), np.arange(1.0, 101.0).tolist(), **fields)
    return Latency(report=report, package_sha256="0", baseline_memory_bytes=0, fingerprint=HERE, baseline=baseline)


def missed(goals: dict, measured: Latency | None = None, size: int = 1_000_000) -> list[tuple[str, float | None]]:
    found = missed_performance(Goals.model_validate(goals), size, measured)
    return [(goal.goal, goal.value) for goal in found]


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        (50.5, []),
        (50, [("latency_ms.p50", 50.5)]),
        ({"p50": 51, "p99": 99}, [("latency_ms.p99", 99.01)]),
        ({"p99.9": 99}, [("latency_ms.p99.9", pytest.approx(99.901))]),
        ({"p0": 0.5, "p100": 100}, [("latency_ms.p0", 1.0)]),
    ],
)
def test_latency_is_judged_by_any_percentile_and_a_number_is_for_the_median(goal, expected):
    assert missed({"latency_ms": goal}, latency()) == expected


def test_a_speed_up_is_how_many_times_as_fast_as_the_baseline_the_package_is():
    assert missed({"speedup": 2.0}, latency(baseline_ms=101.0)) == []
    assert missed({"speedup": 2.1}, latency(baseline_ms=101.0)) == [("speedup", 2.0)]


def test_a_speed_up_without_a_baseline_is_missed_and_says_why():
    (goal,) = missed_performance(Goals(speedup=1), 1, latency(problem="onnxruntime is not installed"))
    assert goal.reason == "it needs a baseline: onnxruntime is not installed"
    (goal,) = missed_performance(Goals(speedup=1), 1, latency())
    assert goal.reason == "it needs a baseline: none was measured"


def test_size_memory_and_loading_have_limits():
    goals = {"package_mb": 0.9, "peak_memory_mb": 50, "load_ms": 5}
    measured = latency(peak_memory_bytes=60_000_000, load_ms=6.0)
    assert missed(goals, measured) == [("package_mb", 1.0), ("peak_memory_mb", 60.0), ("load_ms", 6.0)]
    assert missed({"package_mb": 1, "peak_memory_mb": 60, "load_ms": 6}, measured) == []


def test_what_a_device_does_not_tell_is_missed():
    assert missed({"peak_memory_mb": 50}, latency()) == [("peak_memory_mb", None)]


def test_a_package_that_runs_nowhere_is_judged_by_its_size_alone():
    assert missed({"latency_ms": 1, "speedup": 9, "load_ms": 1, "package_mb": 0.5}) == [("package_mb", 1.0)]


@pytest.mark.parametrize(
    "goals", [{"latency_ms": {"median": 5}}, {"latency_ms": -1}, {"latency_ms": {"p101": 5}}, {"speedup": 0}]
)
def test_goals_that_make_no_sense_are_refused(goals):
    with pytest.raises(ValidationError):
        Goals.model_validate(goals)


def test_they_follow_the_levels_of_the_config_as_numeric_ones_do():
    general = PrecisionGoals.model_validate({"latency_ms": 5, "package_mb": 3})
    model = PrecisionGoals.model_validate(
        {"package_mb": None, "per_precision": {"float16": {"latency_ms": {"p90": 2}}}}
    )
    assert goals_for("float32", general, model).performance == Goals(latency_ms={"p50": 5})
    assert goals_for("float16", general, model).performance == Goals(latency_ms={"p90": 2})
    assert goals_for("float32", general, model).numeric.latency_ms is None
