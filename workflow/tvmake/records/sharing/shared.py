"""A store that several machines share, so that each candidate is measured once.

    <url>/<generation>/<place>/<workload>/<sha256>.jsonl.gz

Object stores can neither append nor lock, so files never change. A push adds a segment: a file of records named by the
sha256 of its content. The records of a workload are those of all its segments. Writers cannot conflict, repeated pushes
and pulls change nothing, and a damaged segment does not match its name.
"""

import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tvmake.errors import InputError
from tvmake.records.line import ENTRIES, Line
from tvmake.records.record import TuningContext
from tvmake.records.sharing import portable
from tvmake.records.sharing.exchange import context_line, workload_lines
from tvmake.records.sharing.ingest import ingest
from tvmake.records.sharing.portable import NumberedLine
from tvmake.records.store import RecordStore
from tvmake.storage.disk import reading, saving
from tvmake.storage.files import digest_bytes, write_text
from tvmake.storage.plain_files import open_plain
from tvmake.storage.shared_directory import Directory, open_directory

SEGMENT_BYTES = 32 << 20
"""Bytes of lines in one segment, before compression."""

LARGEST_SEGMENT = 64 << 20
"""Larger files are not fetched: no segment reaches this size, even one of a single line."""

_NAME = re.compile(r"([^/]+)/([0-9a-f]{64})/([0-9a-f]{64})/([0-9a-f]{64})\.jsonl\.gz")


@dataclass
class ExchangeReport:
    """The outcome of a pull or a push."""

    records: int = 0
    """Records, verdicts and comparisons that were new at the destination."""
    segments: int = 0
    """Segments read or written."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Segments that were refused in whole or in part: name and reason."""

    def add(self, report: "ExchangeReport") -> None:
        """Add the outcome of another exchange."""
        self.records += report.records
        self.segments += report.segments
        self.refused += [refusal for refusal in report.refused if refusal not in self.refused]


class _Segment(BaseModel):
    """A segment that was read before; segments never change, so it is not read again."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    digests: list[str]
    """Digests of its intact lines."""
    imported: bool
    """The lines are in this store, or were when they were pulled."""


class _ReadSegments(BaseModel):
    """The known segments of one workload at one URL; a cache that may be deleted."""

    model_config = ConfigDict(extra="forbid")
    url: str
    segments: dict[str, _Segment] = {}


def pull(
    store: RecordStore, url: str, context: TuningContext, workloads: Iterable[str] | None = None
) -> ExchangeReport:
    """Copy the shared store's records of these workloads (default: all) into this store.

    Damaged segments are skipped and reported; bad lines are quarantined.

    Raises:
        InputError: the URL has an unknown scheme.
        MachineError: the shared store cannot be reached, a package for it is missing, or this store cannot be written.
    """
    remote = open_directory(url)
    listed = _list_segments(remote, context)
    outcome = ExchangeReport()
    for workload in sorted(listed) if workloads is None else workloads:
        segments = listed.get(workload, {})
        read_segments = _load_read_segments(store, url, context, workload)
        unread = {
            name: size
            for name, size in segments.items()
            if name not in read_segments.segments or not read_segments.segments[name].imported
        }
        for name, content in _intact(remote, unread, outcome):
            digests: list[str] = []
            lines = _collect_digests(portable.read(io.BytesIO(content), name), digests)
            try:
                ingested = ingest(store, lines, f"{url}: {name}", _digest_in(name), only=(context, workload))
            except InputError as error:
                outcome.refused.append((name, error.problem))
                continue
            outcome.segments += 1
            outcome.records += ingested.fresh[context, workload]
            outcome.refused += [(name, f"{count}x {reason}") for reason, count in ingested.refused.items()]
            read_segments.segments[name] = _Segment(digests=digests, imported=True)
            _save_read_segments(store, context, workload, read_segments, segments)
    return outcome


def push(
    store: RecordStore, url: str, context: TuningContext, workloads: Iterable[str] | None = None
) -> ExchangeReport:
    """Copy those of this store's records (default: of all workloads) to the shared store that it lacks.

    Raises:
        InputError, MachineError: as for :func:`pull`.
    """
    remote = open_directory(url)
    listed = _list_segments(remote, context)
    outcome = ExchangeReport()
    for workload in store.workloads(context) if workloads is None else workloads:
        segments = listed.get(workload, {})
        read_segments = _load_read_segments(store, url, context, workload)
        unread = {name: size for name, size in segments.items() if name not in read_segments.segments}
        for name, content in _intact(remote, unread, outcome):
            digests: list[str] = []
            try:
                for _ in _collect_digests(portable.read(io.BytesIO(content), name), digests):
                    pass
            except InputError as error:
                outcome.refused.append((name, error.problem))
                continue
            read_segments.segments[name] = _Segment(digests=digests, imported=False)
        shared = {
            digest for name, segment in read_segments.segments.items() if name in segments for digest in segment.digests
        }
        missing = [line for line in workload_lines(store, context, workload) if line.digest not in shared]
        for lines in _portions(missing):
            content = _pack([context_line(context), *(line.raw + b"\n" for line in lines)])
            name = f"{_directory(context)}/{workload}/{digest_bytes(content)}.jsonl.gz"
            remote.write(name, content)
            segments[name] = len(content)
            # The pushed lines come from this store.
            read_segments.segments[name] = _Segment(digests=[line.digest for line in lines], imported=True)
            outcome.segments += 1
            outcome.records += sum(line.kind in ENTRIES for line in lines)
        if unread or missing:
            _save_read_segments(store, context, workload, read_segments, segments)
    return outcome


def contexts(url: str, generation: str, outcome: ExchangeReport) -> list[TuningContext]:
    """The contexts for which a shared store has records, for one TVM generation.

    Args:
        outcome: receives the damaged segments.

    Raises:
        InputError, MachineError: as for :func:`pull`.
    """
    remote = open_directory(url)
    segments: dict[str, dict[str, int]] = {}
    for name, size in sorted(remote.files(generation).items()):
        if (parts := _NAME.fullmatch(name)) and parts[1] == generation:
            segments.setdefault(parts[2], {})[name] = size
    candidates = (_context_in(remote, digest, names, outcome) for digest, names in segments.items())
    return sorted(
        (context for context in candidates if context is not None and context.generation == generation),
        key=lambda context: context.digest,
    )


def _context_in(remote: Directory, digest: str, names: dict[str, int], outcome: ExchangeReport) -> TuningContext | None:
    """The context, as defined by the first intact segment."""
    for name, size in names.items():
        for _, content in _intact(remote, {name: size}, outcome):
            try:
                for _, _, line in portable.read(io.BytesIO(content), name):
                    if isinstance(line, Line) and isinstance(line.value, TuningContext) and line.value.digest == digest:
                        return line.value
            except InputError as error:
                outcome.refused.append((name, error.problem))
    return None


def _directory(context: TuningContext) -> str:
    return f"{context.generation}/{context.digest}"


def _digest_in(name: str) -> str:
    return name[-len(".jsonl.gz") - 64 : -len(".jsonl.gz")]


def _list_segments(remote: Directory, context: TuningContext) -> dict[str, dict[str, int]]:
    """Segments of each workload, with their sizes; files with other names are ignored."""
    segments: dict[str, dict[str, int]] = {}
    for name, size in sorted(remote.files(_directory(context)).items()):
        parts = _NAME.fullmatch(name)
        if parts:
            segments.setdefault(parts[3], {})[name] = size
    return segments


def _intact(remote: Directory, names: dict[str, int], outcome: ExchangeReport) -> Iterator[tuple[str, bytes]]:
    acceptable = []
    for name, size in names.items():
        if size > LARGEST_SEGMENT:
            outcome.refused.append((name, f"is larger than {LARGEST_SEGMENT >> 20} MiB"))
        else:
            acceptable.append(name)
    for name, content in remote.read(acceptable):
        if content is None:
            continue  # deleted since the listing
        if digest_bytes(content) != _digest_in(name):
            outcome.refused.append((name, "differs from the sha256 in its name"))
        else:
            yield name, content


def _collect_digests(lines: Iterable[NumberedLine], digests: list[str]) -> Iterator[NumberedLine]:
    """Yield the lines, and append the digests of the intact ones to ``digests``."""
    for number, raw, line in lines:
        if isinstance(line, Line):
            digests.append(line.digest)
        yield number, raw, line


def _pack(lines: Iterable[bytes]) -> bytes:
    stream = io.BytesIO()
    portable.write(stream, lines)
    return stream.getvalue()


def _portions(lines: Iterable[Line]) -> Iterator[list[Line]]:
    portion: list[Line] = []
    size = 0
    for line in lines:
        if portion and size + len(line.raw) > SEGMENT_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(line)
        size += len(line.raw)
    if portion:
        yield portion


def _read_segments_path(store: RecordStore, url: str, context: TuningContext, workload: str) -> Path:
    return store.journal(context, workload).directory / "shared" / f"{digest_bytes(url.encode())[:16]}.json"


def _load_read_segments(store: RecordStore, url: str, context: TuningContext, workload: str) -> _ReadSegments:
    path = _read_segments_path(store, url, context, workload)
    if not store.journal(context, workload).path.exists():
        return _ReadSegments(url=url)  # the local records were deleted and must be pulled again
    try:
        with reading(path), open_plain(path) as file:
            read_segments = _ReadSegments.model_validate_json(file.read())
    except (FileNotFoundError, ValidationError):
        return _ReadSegments(url=url)
    return read_segments if read_segments.url == url else _ReadSegments(url=url)


def _save_read_segments(
    store: RecordStore, context: TuningContext, workload: str, read_segments: _ReadSegments, segments: dict[str, int]
) -> None:
    kept = {name: segment for name, segment in read_segments.segments.items() if name in segments}
    path = _read_segments_path(store, read_segments.url, context, workload)
    with saving(path):
        write_text(path, json.dumps(_ReadSegments(url=read_segments.url, segments=kept).model_dump()))
