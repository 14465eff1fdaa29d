"""Take lines from outside into a store: what is right goes to its place, what is not is kept apart with the reason."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvmake.errors import InputError
from tvmake.records.line import BadLine, Description, Line
from tvmake.records.record import TuningContext
from tvmake.records.sharing.portable import Numbered
from tvmake.records.store import RecordStore
from tvmake.storage.disk import saving
from tvmake.storage.files import write_bytes

QUARANTINE = "_quarantine"
"""Beside the generations, whose names do not begin with an underscore."""

KEPT_LINES = 10_000
KEPT_BYTES = 4096
"""How much of a bad file is kept: enough to see what is wrong. The file itself stays with whoever has it."""

BATCH_BYTES = 64 << 20
"""Lines held before they are written."""


@dataclass
class Ingested:
    """What became of the lines of one source."""

    fresh: Counter[tuple[TuningContext, str]] = field(default_factory=Counter)
    """New records, verdicts and comparisons of each workload."""
    known: int = 0
    """Those that were there already."""
    refused: Counter[str] = field(default_factory=Counter)
    """Lines set aside, by reason."""
    quarantine: Path | None = None
    """Where they are."""

    @property
    def places(self) -> list[TuningContext]:
        """The places that records came for, new or not."""
        return sorted({place for place, _ in self.fresh}, key=lambda place: (place.generation, place.digest))


def as_row(ingested: Ingested) -> dict[str, Any]:
    """What became of the lines, for programs."""
    return {
        "new": sum(ingested.fresh.values()),
        "workloads": len(ingested.fresh),
        "known": ingested.known,
        "places": [
            {
                "place": place.digest,
                "generation": place.generation,
                "target": place.target,
                "device_class": place.device_class,
                "new": sum(count for (origin, _), count in ingested.fresh.items() if origin == place),
            }
            for place in ingested.places
        ],
        "set_aside": [{"reason": reason, "lines": count} for reason, count in ingested.refused.most_common()],
        "quarantine": str(ingested.quarantine) if ingested.quarantine else None,
    }


def ingest(
    store: RecordStore,
    lines: Iterable[Numbered],
    source: str,
    digest: str,
    only: tuple[TuningContext, str] | None = None,
) -> Ingested:
    """Add the lines of one source to the store; doing so again changes nothing.

    Args:
        source: the file or URL, as people know it.
        digest: its content's sha256; names the quarantine file.
        only: refuse what does not belong to this workload in this place.

    Raises:
        MachineError: the store cannot be written; what was added before stays.
    """
    ingested = Ingested()
    places: dict[str, TuningContext] = {}
    batch: dict[tuple[TuningContext, str], dict[str, bytes]] = {}
    size = 0
    bad: list[dict[str, object]] = []
    for number, raw, found in lines:
        try:
            if isinstance(found, BadLine):
                raise found
            if isinstance(found.value, TuningContext):
                places[found.digest] = found.value
                continue
            where = _belongs(found, places, only)
            if isinstance(found.value, Description):
                store.define(*where, found.value.root)
                continue
        except (BadLine, InputError) as error:
            reason = error.problem if isinstance(error, InputError) else str(error)
            ingested.refused[_kind_of(reason)] += 1
            if len(bad) < KEPT_LINES:
                text = raw[:KEPT_BYTES].decode(errors="surrogateescape")
                bad.append({"reason": reason, "source": source, "number": number, "line": text})
            continue
        batch.setdefault(where, {})[found.digest] = raw + b"\n"
        size += len(raw)
        if size > BATCH_BYTES:
            _flush(store, batch, ingested)
            size = 0
    _flush(store, batch, ingested)
    if bad:
        ingested.quarantine = store.root / QUARANTINE / f"{digest}.jsonl"
        with saving(ingested.quarantine):
            write_bytes(ingested.quarantine, b"".join(json.dumps(entry).encode() + b"\n" for entry in bad))
    return ingested


def _belongs(
    line: Line, places: dict[str, TuningContext], only: tuple[TuningContext, str] | None
) -> tuple[TuningContext, str]:
    place = places.get(line.place)
    if place is None or line.workload is None:
        raise BadLine("its place is not defined before it")
    if only is not None and (place, line.workload) != only:
        raise BadLine("belongs to another place or workload than where it was")
    return place, line.workload


def _flush(store: RecordStore, batch: dict[tuple[TuningContext, str], dict[str, bytes]], ingested: Ingested) -> None:
    for (place, workload), lines in batch.items():
        store.settle(place)
        fresh = store.journal(place, workload).extend(lines.items())
        ingested.fresh[place, workload] += fresh
        ingested.known += len(lines) - fresh
    batch.clear()


def _kind_of(reason: str) -> str:
    """Reasons that differ in their figures only count as one."""
    return "a sample out of bounds" if reason.startswith("a sample of ") else reason
