"""Summaries of the store: how many candidates of a workload were tried, with which outcomes, and which is best."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tvmake.errors import InputError, UsageError
from tvmake.records.plausible import moment
from tvmake.records.preference import last, preferred
from tvmake.records.record import Comparison, TuningContext
from tvmake.records.store import RecordStore, StoredRecord

SHORTEST_PREFIX = 8
"""Digits of a digest that are enough to name something."""


@dataclass(frozen=True)
class WorkloadSummary:
    """One workload in one place."""

    place: TuningContext
    workload: str
    name: str | None
    """From its description."""
    trials: dict[str, int]
    """Candidates by outcome."""
    best: StoredRecord | None
    """The fastest one that is not known to be wrong."""
    last: str | None = None
    """When the latest was measured (UTC, ISO 8601)."""

    @property
    def latency_ms(self) -> float | None:
        """The best one's latency: median of its samples, in ms."""
        return self.best.latency_ms if self.best else None


def summarise(store: RecordStore, place: TuningContext, workload: str) -> WorkloadSummary:
    """Read a workload's records and sum them up.

    Raises:
        MachineError: the store cannot be read.
    """
    stored = store.load(place, workload)
    description = store.description(place, workload) or {}
    name = description.get("name")
    return WorkloadSummary(
        place=place,
        workload=workload,
        name=name if isinstance(name, str) else None,
        trials=dict(Counter(record.outcome for record in stored).most_common()),
        best=next(iter(ranked(stored)), None),
        last=latest(record.measured_at for record in stored),
    )


def ranked(stored: Iterable[StoredRecord]) -> list[StoredRecord]:
    """The records that are not known to be wrong, fastest first; of equally fast ones the first measured."""
    usable = [(record.latency_ms, record) for record in stored if record.latency_ms is not None]
    return [record for _, record in sorted(usable, key=lambda pair: pair[0])]


def latest(times: Iterable[str]) -> str | None:
    """The latest of times in ISO 8601."""
    known = [(when, text) for text in times if (when := moment(text)) is not None]
    return max(known)[1] if known else None


def place_row(place: TuningContext, workloads: Sequence[WorkloadSummary]) -> dict[str, Any]:
    """A place and the sums over its workloads."""
    trials: Counter[str] = Counter()
    for summary in workloads:
        trials.update(summary.trials)
    return {
        "place": place.digest,
        "generation": place.generation,
        "target": place.target,
        "device_class": place.device_class,
        "workloads": len(workloads),
        "trials": dict(trials),
        "last_measured_at": latest(summary.last for summary in workloads if summary.last),
    }


def workload_row(summary: WorkloadSummary) -> dict[str, Any]:
    """A workload, its best latency and its trials."""
    return {
        "workload": summary.workload,
        "name": summary.name,
        "place": summary.place.digest,
        "generation": summary.place.generation,
        "device_class": summary.place.device_class,
        "latency_ms": summary.latency_ms,
        "trials": summary.trials,
        "last_measured_at": summary.last,
        "best": summary.best.digest if summary.best else None,
    }


def workload_details(store: RecordStore, place: TuningContext, workload: str, count: int) -> dict[str, Any]:
    """A workload, its ``count`` best records, the one that packages take first, and the errors of those that failed."""
    stored, comparison = store.load(place, workload), last(store.comparisons(place, workload))
    trials = {record.digest: number for number, record in enumerate(stored, start=1)}
    errors = Counter((record.outcome, _reason(record)) for record in stored if record.outcome != "ok")
    return {
        **workload_row(summarise(store, place, workload)),
        "target": place.target,
        "records": [
            {"trial": trials[record.digest], **_record(record, comparison)}
            for record in preferred(stored, comparison)[:count]
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


def choose(
    store: RecordStore, workloads: Iterable[str] = (), place: str | None = None, generation: str | None = None
) -> list[tuple[TuningContext, str]]:
    """The workloads whose keys begin like this (all, if none is named), in the places asked for.

    Args:
        workloads: keys, or their first 8 or more digits.
        place: digest of a place, likewise.
        generation: a TVM generation.

    Raises:
        UsageError: fewer digits, or nothing of the kind.
        InputError: nothing begins like this, or several do.
    """
    places = [candidate for candidate in store.places() if generation in (None, candidate.generation)]
    if place is not None:
        place_digest = _only(place, {candidate.digest for candidate in places}, "place", store)
        places = [candidate for candidate in places if candidate.digest == place_digest]
    keys_by_place = [(candidate, key) for candidate in places for key in store.workloads(candidate)]
    chosen = {_only(prefix, {key for _, key in keys_by_place}, "workload", store) for prefix in workloads}
    return [(candidate, key) for candidate, key in keys_by_place if key in chosen or not chosen]


def _only(prefix: str, digests: set[str], kind: str, store: RecordStore) -> str:
    text = prefix.lower()
    if len(text) < SHORTEST_PREFIX or not set(text) <= set("0123456789abcdef"):
        raise UsageError(prefix[:80], f"does not name a {kind}", f"give {SHORTEST_PREFIX} or more digits of its digest")
    found = sorted(key for key in digests if key.startswith(text))
    if not found:
        raise InputError(prefix[:80], f"no {kind} in {store.root} begins like this", "`tvmake records show` lists them")
    if len(found) > 1:
        raise InputError(prefix, f"{len(found)} {kind}s begin like this", f"give more digits: {found[0]} …")
    return found[0]
