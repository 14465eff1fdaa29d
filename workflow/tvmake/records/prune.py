"""Drop records on purpose: old failures, all but the best, other TVM generations."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tvmake.records.line import Line
from tvmake.records.plausible import moment
from tvmake.records.preference import last, preferred
from tvmake.records.record import Comparison, TuningContext, Verdict
from tvmake.records.store import RecordStore, StoredRecord
from tvmake.records.summary import ranked
from tvmake.storage.disk import saving


@dataclass(frozen=True)
class Rules:
    """What to drop; each rule by itself."""

    keep_best: int | None = None
    """Of each workload's usable records, keep this many of the fastest, and as many of those that packages take first."""
    failures_before: datetime | None = None
    """Drop what failed, or was found wrong, and was measured before this moment."""
    keep_generation: str | None = None
    """Drop the records of every other TVM generation."""


@dataclass(frozen=True)
class Pruned:
    """What was dropped of one workload, or would be."""

    place: TuningContext
    workload: str
    dropped: int
    kept: int


def prune(store: RecordStore, rules: Rules, apply: bool = False) -> list[Pruned]:
    """Apply the rules to every workload, or only say what they would drop.

    Each file is replaced as a whole. Records that are added meanwhile stay.

    Raises:
        MachineError: the store cannot be written; workloads before that one are pruned.
    """
    pruned = []
    for place in store.places():
        is_other = rules.keep_generation not in (None, place.generation)
        for workload in store.workloads(place):
            stored = store.load(place, workload)
            drop = (
                {record.digest for record in stored}
                if is_other
                else _dropped(stored, last(store.comparisons(place, workload)), rules)
            )
            if drop and apply and not is_other:
                store.journal(place, workload).rewrite(_keeping(drop))
            if drop:
                pruned.append(Pruned(place, workload, len(drop), len(stored) - len(drop)))
        if is_other and apply:
            _remove(store, place)
    return pruned


def _dropped(stored: list[StoredRecord], comparison: Comparison | None, rules: Rules) -> set[str]:
    drop = set()
    if rules.keep_best is not None:
        usable = ranked(stored)
        keep = [*usable[: rules.keep_best], *preferred(usable, comparison)[: rules.keep_best]]
        drop |= {record.digest for record in usable} - {record.digest for record in keep}
    if rules.failures_before is not None:
        for record in stored:
            measured = moment(record.measured_at)
            if record.latency_ms is None and measured is not None and measured < rules.failures_before:
                drop.add(record.digest)
    return drop


def _keeping(drop: set[str]) -> Callable[[Line], bool]:
    def keep(line: Line) -> bool:
        if isinstance(line.value, Comparison):
            return not drop.issuperset(line.value.samples_s)
        about = line.value.record if isinstance(line.value, Verdict) else line.digest
        return about not in drop

    return keep


def _remove(store: RecordStore, place: TuningContext) -> None:
    """The place's definition goes last: a killed removal is taken up by the next one."""
    directory = store.directory(place)
    with saving(directory):
        for workload in store.workloads(place):
            shutil.rmtree(directory / workload)
        shutil.rmtree(directory)
        if not any(directory.parent.iterdir()):
            directory.parent.rmdir()
