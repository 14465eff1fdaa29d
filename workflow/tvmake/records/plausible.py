"""Checks that a record's figures are possible."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime

from tvmake.records.record import Comparison, Measurement, Verdict

SHORTEST_S = 1e-9
"""No kernel is faster: one nanosecond is a few cycles of the fastest processor."""

LONGEST_S = 86_400.0
"""No candidate may run for this long. MetaSchedule itself marks failures with 1e10 s."""

TRACE_BYTES = 1 << 20
"""The maximum size of a trace as JSON; traces of real kernels take 1 to 50 KB."""


def implausible(measured: Measurement) -> str | None:
    """What is wrong with a record's figures; None if nothing is.

    A search should store a candidate with such figures as ``run_error``.
    """
    if measured.status != "ok":
        if measured.samples_s:
            return f"has samples although its status is {measured.status}"
    elif not measured.samples_s:
        return "has no samples although its status is ok"
    samples = [*measured.samples_s, *(sample for point in measured.points for sample in point.samples_s)]
    if (problem := implausible_samples(samples)) is not None:
        return problem
    return (
        None if parse_time(measured.measured_at) else f"measured at {measured.measured_at[:40]!r}, which is not a date"
    )


def implausible_verdict(verdict: Verdict) -> str | None:
    """What is wrong with a verdict; None if nothing is."""
    if verdict.worst_error is not None and verdict.worst_error < 0:
        return f"a worst error of {verdict.worst_error:g}"
    return None if parse_time(verdict.checked_at) else f"checked at {verdict.checked_at[:40]!r}, which is not a date"


def implausible_comparison(comparison: Comparison) -> str | None:
    """What is wrong with a comparison; None if nothing is."""
    if not any(comparison.samples_s.values()):
        return "compares nothing"
    by_point = (point.samples_s for points in comparison.points.values() for point in points)
    for samples in (*comparison.samples_s.values(), *by_point):
        if (problem := implausible_samples(samples)) is not None:
            return problem
    return (
        None
        if parse_time(comparison.compared_at)
        else f"compared at {comparison.compared_at[:40]!r}, which is not a date"
    )


def implausible_samples(samples: Iterable[float]) -> str | None:
    """What is wrong with samples in seconds per run; None if nothing is."""
    for sample in samples:
        if not math.isfinite(sample) or not SHORTEST_S <= sample < LONGEST_S:
            return f"a sample of {sample:g} s"
    return None


def parse_time(text: str) -> datetime | None:
    """A time in ISO 8601, as UTC if it has no time zone; None if the text is not a time."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
