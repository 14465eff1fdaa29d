"""Export records to a file, import a file, merge stores."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tvmake.errors import InputError
from tvmake.records.line import ENTRIES, BadLine, Line, decode, encode
from tvmake.records.record import TuningContext
from tvmake.records.sharing import portable
from tvmake.records.sharing.ingest import IngestReport, ingest
from tvmake.records.sharing.portable import NumberedLine
from tvmake.records.store import RecordStore
from tvmake.storage.disk import reading
from tvmake.storage.files import atomic_path, digest_bytes, digest_file
from tvmake.storage.plain_files import open_plain

Selection = Iterable[tuple[TuningContext, str]]
"""Workloads with their contexts."""


def all_workloads(store: RecordStore) -> list[tuple[TuningContext, str]]:
    """All workloads of all contexts, in a fixed order."""
    return [(context, workload) for context in store.contexts() for workload in store.workloads(context)]


def export_records(store: RecordStore, selection: Selection, destination: Path) -> int:
    """Write workloads with their records, verdicts and comparisons to one file; returns the number of these.

    The same records in the same order give the same bytes.

    Raises:
        MachineError: the file cannot be written.
    """
    count = 0

    def lines() -> Iterator[bytes]:
        nonlocal count
        defined_contexts = set()
        for context, workload in selection:
            if context.digest not in defined_contexts:
                defined_contexts.add(context.digest)
                yield context_line(context)
            for line in workload_lines(store, context, workload):
                count += line.kind in ENTRIES
                yield line.raw + b"\n"

    with atomic_path(destination) as temporary, temporary.open("wb") as file:
        portable.write(file, lines())
    return count


def import_records(store: RecordStore, source: Path) -> IngestReport:
    """Add the records of an exported file, after checking each.

    Records of another TVM generation, target or device go to their own context.

    Raises:
        InputError: the file is missing, is not an export, or has no usable record.
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
            f"it has no usable record ({ingested.refused.most_common(1)[0][0]})",
            f"the reasons, line by line, are in {ingested.quarantine}",
        )
    return ingested


def merge(store: RecordStore, origin: RecordStore) -> IngestReport:
    """Add all records of another store, which stays unchanged.

    Raises:
        InputError: the other directory is not a store.
        MachineError: this store cannot be written, or the other one cannot be read.
    """
    if origin.root.resolve() == store.root.resolve():
        raise InputError(str(origin.root), "is this store itself")
    if not origin.contexts():
        raise InputError(str(origin.root), "has no records", "name the directory of a store")
    source = str(origin.root.resolve())
    return ingest(store, _number_lines(_raw_lines(origin)), source, digest_bytes(source.encode()))


def workload_lines(store: RecordStore, context: TuningContext, workload: str) -> Iterator[Line]:
    """The distinct intact lines of a workload: its description first."""
    description = store.description_line(context, workload)
    if description is not None:
        yield description
    seen = set()
    for piece in store.journal(context, workload).scan():
        if isinstance(piece.content, Line) and piece.content.digest not in seen:
            seen.add(piece.content.digest)
            yield piece.content


def context_line(context: TuningContext) -> bytes:
    """The line that defines a context."""
    return encode(context.digest, None, context)


def _raw_lines(store: RecordStore) -> Iterator[bytes]:
    """The lines of an export, and bad lines too, so that they are reported."""
    for context, workload in all_workloads(store):
        yield context_line(context).removesuffix(b"\n")
        description = store.description_line(context, workload)
        if description is not None:
            yield description.raw
        for piece in store.journal(context, workload).scan():
            yield piece.raw


def _number_lines(lines: Iterable[bytes]) -> Iterator[NumberedLine]:
    for number, raw in enumerate(lines, start=1):
        try:
            yield number, raw, decode(raw, thoroughly=True)
        except BadLine as error:
            yield number, raw, error
