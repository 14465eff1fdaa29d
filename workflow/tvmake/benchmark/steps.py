"""The time of a step by its position in the sequence, of a package with states and of its baseline."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tvmake.benchmark.baseline.result import Baseline
from tvmake.benchmark.result import Latency

MOST_RANGES = 8


@dataclass(frozen=True)
class StepRange:
    """Adjacent steps, with the medians of their times in ms; ``last`` is the last step, counted from 0."""

    first: int
    last: int
    package_ms: float
    baseline_ms: float | None


def step_times(sequences: Sequence[Sequence[float]]) -> list[float]:
    """The median time of each step over all sequences, in ms."""
    return [median(times) for times in zip(*sequences, strict=True)]


def baseline_steps(latency: Latency) -> list[float]:
    """The same of the baseline; empty without one, or if its steps were not timed."""
    baseline = latency.baseline
    return step_times(baseline.steps_ms) if isinstance(baseline, Baseline) else []


def step_ranges(latency: Latency) -> list[StepRange]:
    """At most :data:`MOST_RANGES` ranges of equal length; none for a package without states."""
    package, baseline = step_times(latency.report.steps_ms), baseline_steps(latency)
    length = max(1, -(-len(package) // MOST_RANGES))
    ranges = []
    for first in range(0, len(package), length):
        steps = slice(first, first + length)
        times = package[steps]
        peer = baseline[steps]
        ranges.append(StepRange(first, first + len(times) - 1, median(times), median(peer) if peer else None))
    return ranges
