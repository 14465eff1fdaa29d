"""The records store: all measured candidates of all workloads, by tuning context.

    <root>/<generation>/<place>/place.json
    <root>/<generation>/<place>/<workload>/{records.jsonl, workload.json, quarantine.jsonl, lock}

``<place>`` is the digest of the context, ``<workload>`` the workload's key. docs/concepts/records.md describes the files.
"""

import os
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvmake.artifact.size_points import SizePoint
from tvmake.errors import InputError
from tvmake.records.journal import Journal
from tvmake.records.line import BadLine, Description, Line, decode, encode, read_record
from tvmake.records.plausible import parse_time
from tvmake.records.record import Comparison, Record, Status, TuningContext, Verdict
from tvmake.storage.directories import data_directory
from tvmake.storage.disk import reading, saving
from tvmake.storage.files import write_bytes
from tvmake.storage.plain_files import open_plain

_KEY = re.compile(r"[0-9a-f]{64}")


def records_root() -> Path:
    """``$TVMAKE_HOME/records``, or the user's data directory (records are not a cache)."""
    return data_directory("records")


class StoredRecord:
    """A record of the store, with the latest verdict on it.

    The trace is large and often not needed, so ``record`` is parsed on first access.
    """

    __slots__ = ("_raw", "_record", "digest", "measured_at", "points", "samples_s", "status", "verdict")

    def __init__(self, record: Record, digest: str, verdict: Verdict | None = None):
        self.digest = digest
        self.verdict = verdict
        self.status: Status = record.status
        self.samples_s = record.samples_s
        self.points = record.points
        self.measured_at = record.measured_at
        self._record: Record | None = record
        self._raw = b""

    @classmethod
    def _from_line(cls, line: Line, verdict: Verdict | None) -> "StoredRecord":
        stored = cls(line.value, line.digest, verdict)  # type: ignore[arg-type]  # a line has a record's figures
        stored._record, stored._raw = None, line.raw
        return stored

    @property
    def record(self) -> Record:
        """The record, trace included."""
        if self._record is None:
            self._record, self._raw = read_record(self._raw), b""
        return self._record

    @property
    def size_points(self) -> tuple[SizePoint, ...]:
        """The sizes at which it was measured; only records with equal ones can be compared."""
        return tuple(entry.point for entry in self.points)

    @property
    def outcome(self) -> Status:
        """The status, or ``wrong_output`` if a verdict says so."""
        return "wrong_output" if self.verdict is not None and not self.verdict.right else self.status

    @property
    def latency_ms(self) -> float | None:
        """Median of the samples, in ms; None unless the outcome is ``ok``."""
        return statistics.median(self.samples_s) * 1e3 if self.outcome == "ok" else None


def of_sizes(stored: Iterable[StoredRecord], points: Sequence[SizePoint]) -> list[StoredRecord]:
    """The records that were measured at these sizes of dynamic dimensions; all without such dimensions."""
    wanted = tuple(points)
    return [record for record in stored if record.size_points == wanted]


class RecordStore:
    """The records in one directory.

    Any number of processes may read and write at once. A reader sees whole records only. A record never changes;
    later checks are added as verdicts.
    """

    def __init__(self, root: Path | None = None):
        self.root = Path(root).expanduser() if root is not None else records_root()

    def append(self, context: TuningContext, workload: str, records: Sequence[Record | Verdict | Comparison]) -> None:
        """Append records, verdicts and comparisons in one write; returns after they are on the disk.

        Raises:
            InputError: a record is implausible (:func:`tvmake.records.plausible.implausible`) or not JSON, or the directory
                belongs to another context. Nothing is written.
            MachineError: the store cannot be written. Earlier records are intact.
        """
        journal = self.journal(context, workload)
        if records:
            lines = b"".join(_encode(context, workload, record) for record in records)
            self.define_context(context)
            journal.append(lines)

    def load(self, context: TuningContext, workload: str) -> list[StoredRecord]:
        """The distinct intact records of a workload in order of first appearance.

        The latest verdict on a record counts, and of equally late ones the worst. Bad lines are moved to
        ``quarantine.jsonl``.

        Raises:
            MachineError: the store cannot be read.
        """
        lines = self.journal(context, workload).read()
        verdicts: dict[str, Verdict] = {}
        for line in lines:
            if isinstance(line.value, Verdict):
                verdict = line.value
                previous = verdicts.get(verdict.record)
                if previous is None or _weight(verdict) > _weight(previous):
                    verdicts[verdict.record] = verdict
        return [StoredRecord._from_line(line, verdicts.get(line.digest)) for line in lines if line.kind == "record"]

    def comparisons(self, context: TuningContext, workload: str) -> dict[str, Comparison]:
        """The intact comparisons of a workload by their digests, in order of first appearance.

        Raises:
            MachineError: the store cannot be read.
        """
        lines = self.journal(context, workload).read()
        return {line.digest: line.value for line in lines if isinstance(line.value, Comparison)}

    def define(self, context: TuningContext, workload: str, description: Mapping[str, Any]) -> None:
        """Store a workload's description: a JSON object, with a ``name`` for people. The first description stays.

        Raises:
            InputError: it is not JSON, or larger than 16 MiB.
            MachineError: the store cannot be written.
        """
        path = self._description_path(context, workload)
        if self.description(context, workload) is None:
            line = _encode(context, workload, Description(dict(description)))
            self.define_context(context)
            with saving(path):
                write_bytes(path, line)

    def description(self, context: TuningContext, workload: str) -> dict[str, Any] | None:
        """The stored description; None if it is missing or damaged."""
        line = self.description_line(context, workload)
        if line is None or not isinstance(line.value, Description):
            return None
        return line.value.root

    def description_line(self, context: TuningContext, workload: str) -> Line | None:
        """The line of the description; None if it is missing or damaged."""
        line = read_single(self._description_path(context, workload))
        if not isinstance(line, Line):
            return None
        belongs = (line.kind, line.context, line.workload) == ("description", context.digest, workload)
        return line if belongs else None

    def contexts(self) -> list[TuningContext]:
        """All contexts with a readable ``place.json``, sorted by generation, target and device class."""
        contexts = [self.context_in(directory) for directory in self.context_directories()]
        known = [context for context in contexts if context is not None]
        return sorted(known, key=lambda context: (context.generation, context.target, context.device_class))

    def workloads(self, context: TuningContext) -> list[str]:
        """Keys of the context's workloads, sorted."""
        return [path.name for path in _directories(self.directory(context)) if _KEY.fullmatch(path.name)]

    def define_context(self, context: TuningContext) -> None:
        """Write the context's ``place.json`` unless it exists.

        Raises:
            InputError: the directory belongs to another context.
            MachineError: the store cannot be written.
        """
        directory = self.directory(context)
        line = read_single(directory / "place.json")
        if isinstance(line, Line) and line.kind == "definition":
            if line.context != context.digest:
                raise InputError(
                    str(directory),
                    "has the records of another context than its name says",
                    "move it away, and add it with `tvmake records import`",
                )
        else:
            with saving(directory):
                write_bytes(directory / "place.json", _encode(context, None, context))

    def journal(self, context: TuningContext, workload: str) -> Journal:
        """The workload's file."""
        return Journal(self._workload_directory(context, workload), context.digest, workload)

    def directory(self, context: TuningContext) -> Path:
        """The directory of a context's workloads."""
        return self.root / context.generation / context.digest

    def context_directories(self) -> Iterator[Path]:
        """All directories with the name of a context."""
        for generation in _directories(self.root):
            yield from (path for path in _directories(generation) if _KEY.fullmatch(path.name))

    def context_in(self, directory: Path) -> TuningContext | None:
        """The context of a directory; None if its place.json is missing, or its digest is not the directory's name."""
        line = read_single(directory / "place.json")
        if isinstance(line, Line) and isinstance(line.value, TuningContext) and self.directory(line.value) == directory:
            return line.value
        return None

    def _description_path(self, context: TuningContext, workload: str) -> Path:
        return self._workload_directory(context, workload) / "workload.json"

    def _workload_directory(self, context: TuningContext, workload: str) -> Path:
        if not _KEY.fullmatch(workload):
            raise InputError(workload[:80], "is not a workload's key", "a key is a sha256: 64 hexadecimal digits")
        return self.directory(context) / workload


def open_store(root: Path | str | None = None) -> RecordStore:
    """The store in a directory, which need not exist yet; default: the user's.

    Raises:
        InputError: the path or a parent of it is not a directory.
    """
    store = RecordStore(Path(root) if root is not None else None)
    existing = next(path for path in (store.root, *store.root.absolute().parents) if os.path.lexists(path))
    if not existing.is_dir():
        problem = "is not a directory" if existing == store.root else f"cannot be a directory: {existing} is not one"
        raise InputError(str(store.root), problem, "name a directory for the records (`tuning.store`, `--store`)")
    return store


def read_single(path: Path) -> Line | BadLine | None:
    """The line in a file of a single line; None if the file is missing."""
    try:
        with reading(path), open_plain(path) as file:
            return decode(file.read().removesuffix(b"\n"))
    except FileNotFoundError:
        return None
    except BadLine as error:
        return error


def _encode(
    context: TuningContext, workload: str | None, value: Record | Verdict | Comparison | Description | TuningContext
) -> bytes:
    try:
        return encode(context.digest, workload, value)
    except BadLine as error:
        where = f"workload {workload[:12]}" if workload else "tuning context"
        raise InputError(where, f"a {type(value).__name__.lower()} that cannot be stored: {error}") from None


def _weight(verdict: Verdict) -> tuple[Any, bool]:
    return parse_time(verdict.checked_at), not verdict.right


def _directories(parent: Path) -> list[Path]:
    try:
        with reading(parent):
            return sorted(path for path in parent.iterdir() if path.is_dir() and not path.name.startswith((".", "_")))
    except FileNotFoundError:
        return []
