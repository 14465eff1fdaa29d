"""The time of a step by its position in the sequence."""

from collections.abc import Sequence

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.benchmark.baseline.result import Baseline
from tvmake.benchmark.result import Latency, latency_report
from tvmake.benchmark.statistics import latency_statistics
from tvmake.benchmark.steps import StepRange, baseline_steps, step_ranges, step_times
from tvmake.config.benchmark import Measurement


def latency(steps: Sequence[Sequence[float]], peer: Sequence[Sequence[float]] | None = None) -> Latency:
    """A result with these times of steps, of a package and of its baseline."""
    baseline = Baseline(
        framework="onnxruntime 1.31.1",
        threads=1,
        load_ms=1,
        first_run_ms=1,
        number=1,
        warmup_ms=[],
        samples_ms=[1.0],
        statistics=latency_statistics([1.0]),
        steps_ms=[list(sequence) for sequence in peer or ()],
    )
    return Latency(
        report=latency_report(Measurement(), [1.0], steps_ms=steps),
        package_sha256="0" * 64,
        baseline_memory_bytes=0,
        fingerprint=Fingerprint(kind="cpu", soc="-", cores=1, memory_bytes=1, os="-", runtime="-"),
        baseline=baseline if peer is not None else None,
    )


def test_a_step_has_the_median_of_its_times_over_all_sequences():
    assert step_times([[1, 5], [3, 2], [2, 9]]) == [2, 5]
    assert step_times([]) == []


def test_ranges_have_equal_lengths_and_are_compared_with_the_same_steps_of_the_baseline():
    growing = [[float(step) for step in range(20)]]
    ranges = step_ranges(latency(growing, [[2 * time for time in growing[0]]]))
    assert [(steps.first, steps.last) for steps in ranges] == [
        (0, 2),
        (3, 5),
        (6, 8),
        (9, 11),
        (12, 14),
        (15, 17),
        (18, 19),
    ]
    assert ranges[1] == StepRange(3, 5, 4.0, 8.0)


def test_a_baseline_whose_steps_are_not_timed_has_no_figures():
    assert [steps.baseline_ms for steps in step_ranges(latency([[1.0, 2.0]], []))] == [None, None]
    assert baseline_steps(latency([[1.0]])) == []


def test_a_package_without_states_has_no_steps():
    assert step_ranges(latency([])) == []
