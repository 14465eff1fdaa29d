"""Records for others: export to one file, import of a file, merging of stores."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tvmake.errors import InputError
from tvmake.records.line import ENTRIES, BadLine, Line, decode, encode
from tvmake.records.record import TuningContext
from tvmake.records.sharing import portable
from tvmake.records.sharing.ingest import Ingested, ingest
from tvmake.records.sharing.portable import Numbered
from tvmake.records.store import RecordStore
from tvmake.storage.disk import reading
from tvmake.storage.files import atomic_path, digest_bytes, digest_file
from tvmake.storage.plain_files import open_plain

Chosen = Iterable[tuple[TuningContext, str]]
"""Workloads in their places."""


def everything(store: RecordStore) -> list[tuple[TuningContext, str]]:
    """Every workload of every place, in a fixed order."""
    return [(place, workload) for place in store.places() for workload in store.workloads(place)]


def export_records(store: RecordStore, chosen: Chosen, destination: Path) -> int:
    """Write workloads with their records, verdicts and comparisons to one file; returns how many of these it holds.

    The same records in the same order give the same bytes.

    Raises:
        MachineError: the file cannot be written.
    """
    held = 0

    def lines() -> Iterator[bytes]:
        nonlocal held
        defined = set()
        for place, workload in chosen:
            if place.digest not in defined:
                defined.add(place.digest)
                yield place_line(place)
            for line in workload_lines(store, place, workload):
                held += line.kind in ENTRIES
                yield line.raw + b"\n"

    with atomic_path(destination) as temporary, temporary.open("wb") as file:
        portable.write(file, lines())
    return held


def import_records(store: RecordStore, source: Path) -> Ingested:
    """Add the records of an exported file, after checking each.

    Records of another TVM generation, target or device go to a place of their own.

    Raises:
        InputError: there is no such file, it is of another kind, or nothing in it can be used.
        MachineError: the store cannot be written.
    """
    try:
        with reading(source), open_plain(source) as file:
            ingested = ingest(store, portable.read(file, str(source)), source.name, digest_file(source))
    except FileNotFoundError:
        raise InputError(str(source), "no such file") from None
    if ingested.refused and not ingested.fresh:
        raise InputError(
            str(source),
            f"nothing in it can be used ({ingested.refused.most_common(1)[0][0]})",
            f"the reasons, line by line, are in {ingested.quarantine}",
        )
    return ingested


def merge(store: RecordStore, other: RecordStore) -> Ingested:
    """Add everything of another store; that one is left as it is.

    Raises:
        InputError: the other directory is no store.
        MachineError: this store cannot be written, or the other one not read.
    """
    if other.root.resolve() == store.root.resolve():
        raise InputError(str(other.root), "is this store itself")
    if not other.places():
        raise InputError(str(other.root), "holds no records", "name a directory that has places in it")
    source = str(other.root.resolve())
    return ingest(store, _numbered(_raw_lines(other)), source, digest_bytes(source.encode()))


def workload_lines(store: RecordStore, place: TuningContext, workload: str) -> Iterator[Line]:
    """Every intact line of a workload, each once: its description, then the rest."""
    description = store.description_line(place, workload)
    if description is not None:
        yield description
    seen = set()
    for piece in store.journal(place, workload).scan():
        if isinstance(piece.found, Line) and piece.found.digest not in seen:
            seen.add(piece.found.digest)
            yield piece.found


def place_line(place: TuningContext) -> bytes:
    """The line that defines a place."""
    return encode(place.digest, None, place)


def _raw_lines(store: RecordStore) -> Iterator[bytes]:
    """As an export would have them, and the bad ones too, so that they are seen."""
    for place, workload in everything(store):
        yield place_line(place).removesuffix(b"\n")
        description = store.description_line(place, workload)
        if description is not None:
            yield description.raw
        for piece in store.journal(place, workload).scan():
            yield piece.raw


def _numbered(lines: Iterable[bytes]) -> Iterator[Numbered]:
    for number, raw in enumerate(lines, start=1):
        try:
            yield number, raw, decode(raw, thoroughly=True)
        except BadLine as error:
            yield number, raw, error
