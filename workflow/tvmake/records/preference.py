"""Which of a kernel's records to build with: the fastest, allowing for noise of other work on the machine."""

import statistics
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from tvmake.records.plausible import parse_time
from tvmake.records.record import Comparison
from tvmake.records.store import StoredRecord

RULE: Final = "rule"
"""The ``strategy`` of the schedule from the target's rules, which the kernel has without tuning."""

MARGIN = 0.03
"""The share by which a candidate must beat the schedule of the target's rules. Among hundreds of equally fast candidates, some
seem faster by noise, above all if a launch takes longer than the kernel."""


def latest_comparison(comparisons: Mapping[str, Comparison]) -> Comparison | None:
    """The latest of a workload's comparisons, which decides unless a receipt names another."""
    ordered = sorted(
        comparisons.values(),
        key=lambda comparison: parse_time(comparison.compared_at) or datetime.min.replace(tzinfo=UTC),
    )
    return ordered[-1] if ordered else None


def sort_by_preference(stored: Iterable[StoredRecord], comparison: Comparison | None = None) -> list[StoredRecord]:
    """The usable records, best first.

    Compared records come first, by their fastest sample: other work on a machine only adds time, and affects all of them
    alike. The rest were measured at different times: the schedule of the rules is ranked by its fastest sample, others
    by their medians.
    """
    usable = [record for record in stored if record.latency_ms is not None]
    return sorted(usable, key=lambda record: (*_rank(record, comparison), record.digest))


def latency_ms(record: StoredRecord, comparison: Comparison | None) -> float | None:
    """A record's latency: the median of its samples in the comparison, else in its trial; None unless it is usable."""
    samples = _compared_samples(record, comparison)
    return statistics.median(samples) * 1e3 if samples and record.outcome == "ok" else record.latency_ms


def _rank(record: StoredRecord, comparison: Comparison | None) -> tuple[bool, float]:
    is_rule = record.record.strategy == RULE
    samples = _compared_samples(record, comparison)
    seconds = min(samples or record.samples_s)
    if not samples and not is_rule:
        assert record.latency_ms is not None
        seconds = record.latency_ms / 1e3
    return not samples, seconds if is_rule else seconds * (1 + MARGIN)


def _compared_samples(record: StoredRecord, comparison: Comparison | None) -> tuple[float, ...]:
    return comparison.samples_s.get(record.digest, ()) if comparison else ()
