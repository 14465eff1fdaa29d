"""Whether a record can be true: what is refused, whoever wrote it."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime

from tvmake.records.record import Comparison, Measured, Verdict

SHORTEST_S = 1e-9
"""No kernel takes less: one nanosecond is a few cycles of the fastest processor."""

LONGEST_S = 86_400.0
"""No candidate is waited for this long. MetaSchedule itself marks failures with 1e10 s."""

TRACE_BYTES = 1 << 20
"""A trace as JSON; those of real kernels take 1 to 50 KB."""


def implausible(measured: Measured) -> str | None:
    """What is wrong with a record's figures; None if nothing is.

    A search that meets such figures should store the candidate as ``run_error``.
    """
    if measured.status != "ok":
        if measured.samples_s:
            return f"has samples although its status is {measured.status}"
    elif not measured.samples_s:
        return "has no samples although its status is ok"
    if (wrong := implausible_samples(measured.samples_s)) is not None:
        return wrong
    return None if moment(measured.measured_at) else f"measured at {measured.measured_at[:40]!r}, which is no date"


def implausible_verdict(verdict: Verdict) -> str | None:
    """What is wrong with a verdict; None if nothing is."""
    if verdict.worst_error is not None and verdict.worst_error < 0:
        return f"a worst error of {verdict.worst_error:g}"
    return None if moment(verdict.checked_at) else f"checked at {verdict.checked_at[:40]!r}, which is no date"


def implausible_comparison(comparison: Comparison) -> str | None:
    """What is wrong with a comparison; None if nothing is."""
    if not any(comparison.samples_s.values()):
        return "compares nothing"
    for samples in comparison.samples_s.values():
        if (wrong := implausible_samples(samples)) is not None:
            return wrong
    return None if moment(comparison.compared_at) else f"compared at {comparison.compared_at[:40]!r}, which is no date"


def implausible_samples(samples: Iterable[float]) -> str | None:
    """What is wrong with seconds per run; None if nothing is."""
    for sample in samples:
        if not math.isfinite(sample) or not SHORTEST_S <= sample < LONGEST_S:
            return f"a sample of {sample:g} s"
    return None


def moment(text: str) -> datetime | None:
    """A time as ISO 8601, taken as UTC if it does not say; None if it is none."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)
