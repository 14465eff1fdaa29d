"""Drop records: old failures, all but the best, other TVM generations."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from tvmake.records.line import Line
from tvmake.records.plausible import parse_time
from tvmake.records.preference import latest_comparison, sort_by_preference
from tvmake.records.record import Comparison, TuningContext, Verdict
from tvmake.records.store import RecordStore, StoredRecord
from tvmake.records.summary import sort_by_latency
from tvmake.storage.disk import saving


@dataclass(frozen=True)
class Rules:
    """What to drop; each rule applies by itself."""

    keep_best: int | None = None
    """Keep this many of each workload's fastest usable records, and the same number of those that packages prefer; with
    dynamic dimensions, for each choice of sizes at which they were measured."""
    failures_before: datetime | None = None
    """Drop failed and wrong records that were measured before this time."""
    keep_generation: str | None = None
    """Drop the records of every other TVM generation."""


@dataclass(frozen=True)
class PruneResult:
    """How many records of one workload were dropped, or would be."""

    context: TuningContext
    workload: str
    dropped: int
    kept: int


def prune(store: RecordStore, rules: Rules, apply: bool = False) -> list[PruneResult]:
    """Apply the rules to every workload, or only report what they would drop.

    Each file is replaced as a whole. Records that are added meanwhile stay.

    Raises:
        MachineError: the store cannot be written; workloads before that one are pruned.
    """
    pruned = []
    for context in store.contexts():
        is_other = rules.keep_generation not in (None, context.generation)
        for workload in store.workloads(context):
            stored = store.load(context, workload)
            drop = (
                {record.digest for record in stored}
                if is_other
                else _digests_to_drop(stored, latest_comparison(store.comparisons(context, workload)), rules)
            )
            if drop and apply and not is_other:
                store.journal(context, workload).rewrite(_filter_without(drop))
            if drop:
                pruned.append(PruneResult(context, workload, len(drop), len(stored) - len(drop)))
        if is_other and apply:
            _remove(store, context)
    return pruned


def _digests_to_drop(stored: list[StoredRecord], comparison: Comparison | None, rules: Rules) -> set[str]:
    drop = set()
    if rules.keep_best is not None:
        for records in _by_sizes(stored):
            usable = sort_by_latency(records)
            keep = [*usable[: rules.keep_best], *sort_by_preference(usable, comparison)[: rules.keep_best]]
            drop |= {record.digest for record in usable} - {record.digest for record in keep}
    if rules.failures_before is not None:
        for record in stored:
            measured = parse_time(record.measured_at)
            if record.latency_ms is None and measured is not None and measured < rules.failures_before:
                drop.add(record.digest)
    return drop


def _by_sizes(stored: list[StoredRecord]) -> Iterable[list[StoredRecord]]:
    """Groups of records that were measured at the same sizes of dynamic dimensions."""
    groups: dict[str, list[StoredRecord]] = {}
    for record in stored:
        groups.setdefault(repr(record.size_points), []).append(record)
    return groups.values()


def _filter_without(digests: set[str]) -> Callable[[Line], bool]:
    def keep(line: Line) -> bool:
        if isinstance(line.value, Comparison):
            return not digests.issuperset(line.value.samples_s)
        digest = line.value.record if isinstance(line.value, Verdict) else line.digest
        return digest not in digests

    return keep


def _remove(store: RecordStore, context: TuningContext) -> None:
    """Remove the definition last, so that the next run completes a killed removal."""
    directory = store.directory(context)
    with saving(directory):
        for workload in store.workloads(context):
            shutil.rmtree(directory / workload)
        shutil.rmtree(directory)
        if not any(directory.parent.iterdir()):
            directory.parent.rmdir()
