"""Summaries of the store: the outcomes and the best record of each workload."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tvmake.errors import InputError, UsageError
from tvmake.records.plausible import parse_time
from tvmake.records.preference import latest_comparison, latest_sizes, sort_by_preference
from tvmake.records.record import Comparison, TuningContext
from tvmake.records.store import RecordStore, StoredRecord

SHORTEST_PREFIX = 8
"""The minimum number of a digest's digits that names a workload or context."""


@dataclass(frozen=True)
class WorkloadSummary:
    """One workload in one context."""

    context: TuningContext
    workload: str
    name: str | None
    """From the workload's description."""
    trials: dict[str, int]
    """Candidates by outcome."""
    best: StoredRecord | None
    """The fastest record that is not known to be wrong; with dynamic dimensions, of those at the latest sizes."""
    last: str | None = None
    """When the latest candidate was measured (UTC, ISO 8601)."""

    @property
    def latency_ms(self) -> float | None:
        """The best record's latency: median of its samples, in ms."""
        return self.best.latency_ms if self.best else None


def summarise(store: RecordStore, context: TuningContext, workload: str) -> WorkloadSummary:
    """Summarise a workload's records.

    Raises:
        MachineError: the store cannot be read.
    """
    stored = store.load(context, workload)
    description = store.description(context, workload) or {}
    name = description.get("name")
    return WorkloadSummary(
        context=context,
        workload=workload,
        name=name if isinstance(name, str) else None,
        trials=dict(Counter(record.outcome for record in stored).most_common()),
        best=next(iter(sort_by_latency(latest_sizes(stored))), None),
        last=latest(record.measured_at for record in stored),
    )


def sort_by_latency(stored: Iterable[StoredRecord]) -> list[StoredRecord]:
    """The records that are not known to be wrong, fastest first; equally fast ones in order of measurement."""
    usable = [(record.latency_ms, record) for record in stored if record.latency_ms is not None]
    return [record for _, record in sorted(usable, key=lambda pair: pair[0])]


def latest(times: Iterable[str]) -> str | None:
    """The latest of several ISO 8601 times; None without any."""
    known = [(when, text) for text in times if (when := parse_time(text)) is not None]
    return max(known)[1] if known else None


def context_row(context: TuningContext, workloads: Sequence[WorkloadSummary]) -> dict[str, Any]:
    """A context and the totals of its workloads."""
    trials: Counter[str] = Counter()
    for summary in workloads:
        trials.update(summary.trials)
    return {
        "place": context.digest,
        "generation": context.generation,
        "target": context.target,
        "device_class": context.device_class,
        "workloads": len(workloads),
        "trials": dict(trials),
        "last_measured_at": latest(summary.last for summary in workloads if summary.last),
    }


def workload_row(summary: WorkloadSummary) -> dict[str, Any]:
    """A workload, its best latency and its trials."""
    return {
        "workload": summary.workload,
        "name": summary.name,
        "place": summary.context.digest,
        "generation": summary.context.generation,
        "device_class": summary.context.device_class,
        "latency_ms": summary.latency_ms,
        "trials": summary.trials,
        "last_measured_at": summary.last,
        "best": summary.best.digest if summary.best else None,
    }


def workload_details(store: RecordStore, context: TuningContext, workload: str, count: int) -> dict[str, Any]:
    """A workload, its ``count`` best records, the one that packages prefer first, and the errors of failed candidates."""
    stored, comparison = store.load(context, workload), latest_comparison(store.comparisons(context, workload))
    trials = {record.digest: number for number, record in enumerate(stored, start=1)}
    errors = Counter((record.outcome, _reason(record)) for record in stored if record.outcome != "ok")
    return {
        **workload_row(summarise(store, context, workload)),
        "target": context.target,
        "records": [
            {"trial": trials[record.digest], **_record(record, comparison)}
            for record in sort_by_preference(latest_sizes(stored), comparison)[:count]
        ],
        "errors": [
            {"outcome": outcome, "error": reason, "count": number} for (outcome, reason), number in errors.most_common()
        ],
    }


def _record(stored: StoredRecord, comparison: Comparison | None) -> dict[str, Any]:
    record = stored.record
    compared = comparison.samples_s.get(stored.digest, ()) if comparison else ()
    return {
        "record": stored.digest,
        "latency_ms": stored.latency_ms,
        "samples_ms": [sample * 1e3 for sample in record.samples_s],
        "compared_ms": [sample * 1e3 for sample in compared],
        "points": [
            {"sizes": point.sizes, "weight": point.weight, "samples_ms": [sample * 1e3 for sample in point.samples_s]}
            for point in record.points
        ],
        "measured_at": record.measured_at,
        "strategy": record.strategy,
        "cost_model": record.cost_model,
        "seed": record.seed,
        "batch": record.batch,
        "device": record.device.model_dump(mode="json"),
        "verdict": stored.verdict.model_dump(mode="json") if stored.verdict else None,
        "trace": record.trace,
    }


def _reason(stored: StoredRecord) -> str:
    if stored.outcome != stored.status and stored.verdict:
        return stored.verdict.reason
    return stored.record.error or ""


def select_workloads(
    store: RecordStore, workloads: Iterable[str] = (), context: str | None = None, generation: str | None = None
) -> list[tuple[TuningContext, str]]:
    """The workloads whose keys begin with a prefix (default: all), in the selected contexts.

    Args:
        workloads: prefixes of keys, at least 8 digits.
        context: a prefix of a context's digest, at least 8 digits.
        generation: a TVM generation.

    Raises:
        UsageError: a prefix is too short or not hexadecimal.
        InputError: a prefix has no match, or several.
    """
    contexts = [candidate for candidate in store.contexts() if generation in (None, candidate.generation)]
    if context is not None:
        context_digest = _only(context, {candidate.digest for candidate in contexts}, "place", store)
        contexts = [candidate for candidate in contexts if candidate.digest == context_digest]
    keys_by_context = [(candidate, key) for candidate in contexts for key in store.workloads(candidate)]
    chosen = {_only(prefix, {key for _, key in keys_by_context}, "workload", store) for prefix in workloads}
    return [(candidate, key) for candidate, key in keys_by_context if key in chosen or not chosen]


def _only(prefix: str, digests: set[str], kind: str, store: RecordStore) -> str:
    text = prefix.lower()
    if len(text) < SHORTEST_PREFIX or not set(text) <= set("0123456789abcdef"):
        raise UsageError(prefix[:80], f"does not name a {kind}", f"give {SHORTEST_PREFIX} or more digits of its digest")
    matches = sorted(key for key in digests if key.startswith(text))
    if not matches:
        problem = f"no {kind} in {store.root} begins with these digits"
        raise InputError(prefix[:80], problem, "`tvmake records show` lists them")
    if len(matches) > 1:
        raise InputError(prefix, f"{len(matches)} {kind}s begin with these digits", f"give more digits: {matches[0]} …")
    return matches[0]
