"""Add lines from outside to a store; bad lines are quarantined with the reason."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvmake.errors import InputError
from tvmake.records.line import BadLine, Description, Line
from tvmake.records.record import TuningContext
from tvmake.records.sharing.portable import NumberedLine
from tvmake.records.store import RecordStore
from tvmake.storage.disk import saving
from tvmake.storage.files import write_bytes

QUARANTINE = "_quarantine"
"""Beside the generations, whose names do not begin with an underscore."""

KEPT_LINES = 10_000
KEPT_BYTES = 4096
"""Limits of a quarantine file: enough to see what is wrong. The source is not deleted."""

BATCH_BYTES = 64 << 20
"""Bytes of lines in memory before they are written."""


@dataclass
class IngestReport:
    """The outcome for the lines of one source."""

    fresh: Counter[tuple[TuningContext, str]] = field(default_factory=Counter)
    """New records, verdicts and comparisons of each workload."""
    known: int = 0
    """Lines that were in the store already."""
    refused: Counter[str] = field(default_factory=Counter)
    """Quarantined lines, by reason."""
    quarantine: Path | None = None
    """The quarantine file."""

    @property
    def contexts(self) -> list[TuningContext]:
        """The contexts of the source's records, new or known."""
        return sorted({context for context, _ in self.fresh}, key=lambda context: (context.generation, context.digest))


def as_row(ingested: IngestReport) -> dict[str, Any]:
    """The outcome as JSON."""
    return {
        "new": sum(ingested.fresh.values()),
        "workloads": len(ingested.fresh),
        "known": ingested.known,
        "places": [
            {
                "place": context.digest,
                "generation": context.generation,
                "target": context.target,
                "device_class": context.device_class,
                "new": sum(count for (origin, _), count in ingested.fresh.items() if origin == context),
            }
            for context in ingested.contexts
        ],
        "set_aside": [{"reason": reason, "lines": count} for reason, count in ingested.refused.most_common()],
        "quarantine": str(ingested.quarantine) if ingested.quarantine else None,
    }


def ingest(
    store: RecordStore,
    lines: Iterable[NumberedLine],
    source: str,
    digest: str,
    only: tuple[TuningContext, str] | None = None,
) -> IngestReport:
    """Add the lines of one source to the store; doing so again changes nothing.

    Args:
        source: the file or URL, for messages.
        digest: sha256 of the source's content; names the quarantine file.
        only: refuse lines of any other context or workload.

    Raises:
        MachineError: the store cannot be written; earlier batches stay.
    """
    ingested = IngestReport()
    contexts: dict[str, TuningContext] = {}
    batch: dict[tuple[TuningContext, str], dict[str, bytes]] = {}
    size = 0
    bad: list[dict[str, object]] = []
    for number, raw, line in lines:
        try:
            if isinstance(line, BadLine):
                raise line
            if isinstance(line.value, TuningContext):
                contexts[line.digest] = line.value
                continue
            where = _belongs(line, contexts, only)
            if isinstance(line.value, Description):
                store.define(*where, line.value.root)
                continue
        except (BadLine, InputError) as error:
            reason = error.problem if isinstance(error, InputError) else str(error)
            ingested.refused[_kind_of(reason)] += 1
            if len(bad) < KEPT_LINES:
                text = raw[:KEPT_BYTES].decode(errors="surrogateescape")
                bad.append({"reason": reason, "source": source, "number": number, "line": text})
            continue
        batch.setdefault(where, {})[line.digest] = raw + b"\n"
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
    line: Line, contexts: dict[str, TuningContext], only: tuple[TuningContext, str] | None
) -> tuple[TuningContext, str]:
    context = contexts.get(line.context)
    if context is None or line.workload is None:
        raise BadLine("its context is not defined before it")
    if only is not None and (context, line.workload) != only:
        raise BadLine("belongs to another context or workload than its segment")
    return context, line.workload


def _flush(
    store: RecordStore, batch: dict[tuple[TuningContext, str], dict[str, bytes]], ingested: IngestReport
) -> None:
    for (context, workload), lines in batch.items():
        store.define_context(context)
        fresh = store.journal(context, workload).extend(lines.items())
        ingested.fresh[context, workload] += fresh
        ingested.known += len(lines) - fresh
    batch.clear()


def _kind_of(reason: str) -> str:
    """Reasons that differ only in figures count as one."""
    return "a sample out of bounds" if reason.startswith("a sample of ") else reason
