"""Where a workload stands: how many candidates were tried, what became of them, and which is best."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tvmake.errors import InputError, UsageError
from tvmake.records.plausible import moment
from tvmake.records.record import Place
from tvmake.records.store import RecordStore, StoredRecord

SHORTEST_PREFIX = 8
"""Digits of a digest that are enough to name something."""


@dataclass(frozen=True)
class Standing:
    """One workload in one place."""

    place: Place
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


def standing(store: RecordStore, place: Place, workload: str) -> Standing:
    """Read a workload's records and sum them up.

    Raises:
        MachineError: the store cannot be read.
    """
    stored = store.load(place, workload)
    description = store.description(place, workload) or {}
    name = description.get("name")
    return Standing(
        place=place,
        workload=workload,
        name=name if isinstance(name, str) else None,
        trials=dict(Counter(one.outcome for one in stored).most_common()),
        best=next(iter(ranked(stored)), None),
        last=latest(one.measured_at for one in stored),
    )


def ranked(stored: Iterable[StoredRecord]) -> list[StoredRecord]:
    """The records that are not known to be wrong, fastest first; of equally fast ones the first measured."""
    usable = [(one.latency_ms, one) for one in stored if one.latency_ms is not None]
    return [one for _, one in sorted(usable, key=lambda pair: pair[0])]


def latest(times: Iterable[str]) -> str | None:
    """The latest of times in ISO 8601."""
    known = [(when, text) for text in times if (when := moment(text)) is not None]
    return max(known)[1] if known else None


def choose(
    store: RecordStore, workloads: Iterable[str] = (), place: str | None = None, generation: str | None = None
) -> list[tuple[Place, str]]:
    """The workloads whose keys begin like this (all, if none is named), in the places asked for.

    Args:
        workloads: keys, or their first 8 or more digits.
        place: digest of a place, likewise.
        generation: a TVM generation.

    Raises:
        UsageError: fewer digits, or nothing of the kind.
        InputError: nothing begins like this, or several do.
    """
    places = [one for one in store.places() if generation in (None, one.generation)]
    if place is not None:
        one_place = _only(place, {one.digest for one in places}, "place", store)
        places = [one for one in places if one.digest == one_place]
    there = [(one, key) for one in places for key in store.workloads(one)]
    wanted = {_only(prefix, {key for _, key in there}, "workload", store) for prefix in workloads}
    return [(one, key) for one, key in there if key in wanted or not wanted]


def _only(prefix: str, known: set[str], kind: str, store: RecordStore) -> str:
    text = prefix.lower()
    if len(text) < SHORTEST_PREFIX or not set(text) <= set("0123456789abcdef"):
        raise UsageError(prefix[:80], f"does not name a {kind}", f"give {SHORTEST_PREFIX} or more digits of its digest")
    found = sorted(key for key in known if key.startswith(text))
    if not found:
        raise InputError(prefix[:80], f"no {kind} in {store.root} begins like this", "`tvmake records top` lists them")
    if len(found) > 1:
        raise InputError(prefix, f"{len(found)} {kind}s begin like this", f"give more digits: {found[0]} …")
    return found[0]
