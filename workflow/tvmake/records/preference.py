"""Which of a kernel's records to build with: the fastest, allowing for noise of other work on the machine."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from tvmake.records.plausible import parse_time
from tvmake.records.record import Comparison, PointSamples
from tvmake.records.store import StoredRecord

_START = datetime.min.replace(tzinfo=UTC)

RULE: Final = "rule"
"""The ``strategy`` of the schedule from the target's rules, which the kernel has without tuning."""

MARGIN = 0.03
"""The share by which a candidate must beat the schedule of the target's rules. Among hundreds of equally fast candidates, some
seem faster by noise, above all if a launch takes longer than the kernel."""


MOST_LOSS = 0.1
"""The share by which a candidate of a kernel with dynamic dimensions may be slower than the rules' schedule at one of its
sizes. A candidate that gains at most sizes must not make another one slow."""


def latest_comparison(comparisons: Mapping[str, Comparison]) -> Comparison | None:
    """The latest of a workload's comparisons, which decides unless a receipt names another."""
    ordered = sorted(
        comparisons.values(),
        key=lambda comparison: parse_time(comparison.compared_at) or _START,
    )
    return ordered[-1] if ordered else None


def latest_sizes(stored: Iterable[StoredRecord]) -> list[StoredRecord]:
    """The records that were measured at the same sizes of dynamic dimensions as the latest one; all without such dimensions."""
    records = list(stored)
    latest = max(records, key=lambda record: (parse_time(record.measured_at) or _START, record.digest), default=None)
    return [record for record in records if latest is not None and record.size_points == latest.size_points]


def sort_by_preference(
    stored: Iterable[StoredRecord], comparison: Comparison | None = None, *, allows_losses: bool = False
) -> list[StoredRecord]:
    """The usable records, best first.

    Compared records come first, by their fastest sample: other work on a machine only adds time, and affects all of them
    alike. The rest were measured at different times: the schedule of the rules is ranked by its fastest sample, others
    by their medians.

    With dynamic dimensions, records are ranked by the weighted mean, over the sizes, of their fastest samples relative
    to those of the rules' schedule, so that each size counts. A record that is slower than it by more than
    :data:`MOST_LOSS` at one size comes after it.

    Args:
        stored: records that were measured at the same sizes.
        allows_losses: rank records that are slower at one size like others, to choose those to measure again.
    """
    usable = [record for record in stored if record.latency_ms is not None]
    rule = next((record for record in usable if record.points and record.record.strategy == RULE), None)
    return sorted(usable, key=lambda record: (*_rank(record, comparison, rule, allows_losses), record.digest))


def latency_ms(record: StoredRecord, comparison: Comparison | None) -> float | None:
    """A record's latency: the median of its samples in the comparison, else in its trial; None unless it is usable."""
    samples = _compared_samples(record, comparison)
    return statistics.median(samples) * 1e3 if samples and record.outcome == "ok" else record.latency_ms


def _rank(
    record: StoredRecord, comparison: Comparison | None, rule: StoredRecord | None, allows_losses: bool
) -> tuple[bool, float]:
    samples = _compared_samples(record, comparison)
    if rule is not None and record.points:
        own, base = _points(record, comparison), _points(rule, comparison if samples else None)
        return not samples, 1.0 if record is rule else _relative_time(own, base, allows_losses)
    is_rule = record.record.strategy == RULE
    seconds = min(samples or record.samples_s)
    if not samples and not is_rule:
        assert record.latency_ms is not None
        seconds = record.latency_ms / 1e3
    return not samples, seconds if is_rule else seconds * (1 + MARGIN)


def _relative_time(own: Sequence[PointSamples], base: Sequence[PointSamples], allows_losses: bool) -> float:
    """A record's time relative to that of the rules' schedule, which has 1."""
    ratios = [min(point.samples_s) / min(other.samples_s) for point, other in zip(own, base, strict=True)]
    weights = [point.weight for point in own]
    mean = sum(weight * ratio for weight, ratio in zip(weights, ratios, strict=True)) / sum(weights)
    score = mean * (1 + MARGIN)
    return score if allows_losses or max(ratios) <= 1 + MOST_LOSS else max(score, *ratios)


def _points(record: StoredRecord, comparison: Comparison | None) -> Sequence[PointSamples]:
    return (comparison.points.get(record.digest) if comparison else None) or record.points


def _compared_samples(record: StoredRecord, comparison: Comparison | None) -> tuple[float, ...]:
    return comparison.samples_s.get(record.digest, ()) if comparison else ()
