"""Verify a store without changing it: every line's digest, context and structure."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvmake.records.journal import Journal
from tvmake.records.line import BadLine, decode
from tvmake.records.record import TuningContext
from tvmake.records.store import RecordStore, read_single


@dataclass
class VerifyReport:
    """The totals and problems of a verified store."""

    contexts: int = 0
    workloads: int = 0
    records: int = 0
    verdicts: int = 0
    comparisons: int = 0
    duplicates: int = 0
    set_aside: int = 0
    """Bad lines that are in quarantine files."""
    cut_short: int = 0
    """Files with an incomplete last line, of a killed or a running writer; not a problem."""
    findings: list[tuple[Path, str]] = field(default_factory=list)
    """The files with problems, and the problem; with the line number if it concerns a line."""


def verify(store: RecordStore) -> VerifyReport:
    """Check every line of the store in full.

    Raises:
        MachineError: the store cannot be read.
    """
    verified = VerifyReport()
    for directory in store.context_directories():
        context = store.context_in(directory)
        if context is None:
            verified.findings.append((directory / "place.json", "missing, damaged, or belongs to another context"))
            continue
        verified.contexts += 1
        for workload in store.workloads(context):
            verified.workloads += 1
            _check_description(store, context, workload, verified)
            _check_records(store.journal(context, workload), verified)
    return verified


def as_row(verified: VerifyReport) -> dict[str, Any]:
    """The report as JSON."""
    counts = ("workloads", "records", "verdicts", "comparisons", "duplicates", "set_aside", "cut_short")
    return {
        "places": verified.contexts,
        **{name: getattr(verified, name) for name in counts},
        "findings": [{"file": str(path), "problem": reason} for path, reason in verified.findings],
    }


def _check_description(store: RecordStore, context: TuningContext, workload: str, verified: VerifyReport) -> None:
    path = store.journal(context, workload).directory / "workload.json"
    line = read_single(path)
    if isinstance(line, BadLine):
        verified.findings.append((path, str(line)))
    elif line is not None and store.description_line(context, workload) is None:
        verified.findings.append((path, "belongs to another workload"))


def _check_records(journal: Journal, verified: VerifyReport) -> None:
    verified.set_aside += journal.count_quarantined()
    seen = set()
    for piece in journal.scan():
        line = piece.content
        if not isinstance(line, BadLine):
            try:
                line = decode(piece.raw, thoroughly=True)
            except BadLine as error:
                line = error
        if isinstance(line, BadLine):
            if piece.is_unfinished:
                verified.cut_short += 1
            else:
                verified.findings.append((journal.path, f"line {piece.number} {line}"))
        elif line.digest in seen:
            verified.duplicates += 1
        else:
            seen.add(line.digest)
            verified.records += line.kind == "record"
            verified.verdicts += line.kind == "verdict"
            verified.comparisons += line.kind == "comparison"
