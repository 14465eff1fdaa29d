"""Check a store without changing it: every line's digest, place and structure."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvmake.records.journal import Journal
from tvmake.records.line import BadLine, decode
from tvmake.records.record import TuningContext
from tvmake.records.store import RecordStore, read_single


@dataclass
class Verified:
    """What was looked at, and what is wrong."""

    places: int = 0
    workloads: int = 0
    records: int = 0
    verdicts: int = 0
    comparisons: int = 0
    duplicates: int = 0
    set_aside: int = 0
    """Bad lines that are in quarantine files already."""
    cut_short: int = 0
    """Files whose last line a killed writer did not finish, or is writing now; no finding."""
    findings: list[tuple[Path, str]] = field(default_factory=list)
    """What is wrong, and where; with the line's number as far as it concerns a line."""


def verify(store: RecordStore) -> Verified:
    """Read everything in the store thoroughly.

    Raises:
        MachineError: the store cannot be read.
    """
    verified = Verified()
    for directory in store.place_directories():
        place = store.place_in(directory)
        if place is None:
            verified.findings.append((directory / "place.json", "missing, damaged, or of another place"))
            continue
        verified.places += 1
        for workload in store.workloads(place):
            verified.workloads += 1
            _check_description(store, place, workload, verified)
            _check_records(store.journal(place, workload), verified)
    return verified


def as_row(verified: Verified) -> dict[str, Any]:
    """What a check found, for programs."""
    counts = ("places", "workloads", "records", "verdicts", "comparisons", "duplicates", "set_aside", "cut_short")
    return {
        **{name: getattr(verified, name) for name in counts},
        "findings": [{"file": str(path), "problem": reason} for path, reason in verified.findings],
    }


def _check_description(store: RecordStore, place: TuningContext, workload: str, verified: Verified) -> None:
    path = store.journal(place, workload).directory / "workload.json"
    found = read_single(path)
    if isinstance(found, BadLine):
        verified.findings.append((path, str(found)))
    elif found is not None and store.description_line(place, workload) is None:
        verified.findings.append((path, "is of another workload"))


def _check_records(journal: Journal, verified: Verified) -> None:
    verified.set_aside += journal.set_aside()
    seen = set()
    for piece in journal.scan():
        found = piece.found
        if not isinstance(found, BadLine):
            try:
                found = decode(piece.raw, thoroughly=True)
            except BadLine as error:
                found = error
        if isinstance(found, BadLine):
            if piece.is_unfinished:
                verified.cut_short += 1
            else:
                verified.findings.append((journal.path, f"line {piece.number} {found}"))
        elif found.digest in seen:
            verified.duplicates += 1
        else:
            seen.add(found.digest)
            verified.records += found.kind == "record"
            verified.verdicts += found.kind == "verdict"
            verified.comparisons += found.kind == "comparison"
