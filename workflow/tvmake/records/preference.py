"""Which of a kernel's records a package takes: the fastest, as far as can be told from times that other work on a machine disturbs."""

import statistics
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from tvmake.records.plausible import moment
from tvmake.records.record import Comparison
from tvmake.records.store import StoredRecord

RULE: Final = "rule"
"""The ``strategy`` of the schedule that the target's rules give, which the kernel has without tuning."""

MARGIN = 0.03
"""A candidate counts as faster than the schedule of the target's rules by more than this share: of hundreds of candidates that are
as fast, noise alone makes some seem faster, above all where a launch takes longer than the kernel."""


def last(comparisons: Mapping[str, Comparison]) -> Comparison | None:
    """The latest of a workload's comparisons: the one that counts where no receipt names another."""
    ordered = sorted(comparisons.values(), key=lambda one: moment(one.compared_at) or datetime.min.replace(tzinfo=UTC))
    return ordered[-1] if ordered else None


def preferred(stored: Iterable[StoredRecord], comparison: Comparison | None = None) -> list[StoredRecord]:
    """The records that worked and are not known to be wrong, the one to take first.

    Those that were compared come first, by the fastest sample of the comparison: other work on a machine only ever adds time, and
    falls to all of them. The rest were measured at different times: the schedule of the rules counts by its fastest
    sample, others by their medians.
    """
    usable = [record for record in stored if record.latency_ms is not None]
    return sorted(usable, key=lambda record: (*_rank(record, comparison), record.digest))


def latency_ms(record: StoredRecord, comparison: Comparison | None) -> float | None:
    """A record's latency: the median of its samples in the comparison, or else of those of its trial; None unless it worked."""
    samples = _compared(record, comparison)
    return statistics.median(samples) * 1e3 if samples and record.outcome == "ok" else record.latency_ms


def _rank(record: StoredRecord, comparison: Comparison | None) -> tuple[bool, float]:
    is_rule = record.record.strategy == RULE
    samples = _compared(record, comparison)
    seconds = min(samples or record.samples_s)
    if not samples and not is_rule:
        assert record.latency_ms is not None
        seconds = record.latency_ms / 1e3
    return not samples, seconds if is_rule else seconds * (1 + MARGIN)


def _compared(record: StoredRecord, comparison: Comparison | None) -> tuple[float, ...]:
    return comparison.samples_s.get(record.digest, ()) if comparison else ()
