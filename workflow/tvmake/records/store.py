"""The records store: every measured candidate of every workload, in its place, for good.

    <root>/<generation>/<place>/place.json
    <root>/<generation>/<place>/<workload>/{records.jsonl, workload.json, quarantine.jsonl, lock}

``place`` is the place's digest, ``workload`` the workload's key. docs/concepts/records.md describes the files.
"""

import os
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvmake.errors import InputError
from tvmake.records.journal import Journal
from tvmake.records.line import BadLine, Description, Line, decode, encode, read_record
from tvmake.records.plausible import moment
from tvmake.records.record import Comparison, Record, Status, TuningContext, Verdict
from tvmake.storage.directories import data_directory
from tvmake.storage.disk import reading, saving
from tvmake.storage.files import write_bytes
from tvmake.storage.plain_files import open_plain

_KEY = re.compile(r"[0-9a-f]{64}")


def records_root() -> Path:
    """``$TVMAKE_HOME/records``, or the user's data directory: records are no cache."""
    return data_directory("records")


class StoredRecord:
    """A record of the store, and what a later check found.

    The trace is large, and often only figures are wanted: ``record`` is read when it is first asked for.
    """

    __slots__ = ("_raw", "_record", "digest", "measured_at", "samples_s", "status", "verdict")

    def __init__(self, record: Record, digest: str, verdict: Verdict | None = None):
        self.digest = digest
        self.verdict = verdict
        self.status: Status = record.status
        self.samples_s = record.samples_s
        self.measured_at = record.measured_at
        self._record: Record | None = record
        self._raw = b""

    @classmethod
    def _of(cls, line: Line, verdict: Verdict | None) -> "StoredRecord":
        stored = cls(line.value, line.digest, verdict)  # type: ignore[arg-type]  # the line's figures stand in
        stored._record, stored._raw = None, line.raw
        return stored

    @property
    def record(self) -> Record:
        """The record, trace included."""
        if self._record is None:
            self._record, self._raw = read_record(self._raw), b""
        return self._record

    @property
    def outcome(self) -> Status:
        """The status, or ``wrong_output`` where a check found that."""
        return "wrong_output" if self.verdict is not None and not self.verdict.right else self.status

    @property
    def latency_ms(self) -> float | None:
        """Median of the samples, in ms; None unless the outcome is ``ok``."""
        return statistics.median(self.samples_s) * 1e3 if self.outcome == "ok" else None


class RecordStore:
    """The records in one directory.

    Any number of processes may read and write at once. A reader sees whole records only. A record is never changed;
    what a check finds later is added as a verdict.
    """

    def __init__(self, root: Path | None = None):
        self.root = Path(root).expanduser() if root is not None else records_root()

    def append(self, place: TuningContext, workload: str, records: Sequence[Record | Verdict | Comparison]) -> None:
        """Add records, verdicts and comparisons, in one write; returns when they are on the disk.

        Raises:
            InputError: a record that cannot be true (:func:`tvmake.records.plausible.implausible`) or is not JSON, or
                the place's directory holds another place. Nothing is written then.
            MachineError: the store cannot be written. Nothing that was written before is lost.
        """
        journal = self.journal(place, workload)
        if records:
            lines = b"".join(_encoded(place, workload, record) for record in records)
            self.settle(place)
            journal.append(lines)

    def load(self, place: TuningContext, workload: str) -> list[StoredRecord]:
        """The intact records of a workload in order of first appearance, each once.

        Of several verdicts on a record the latest counts, and of equally late ones the worst. Bad lines are set aside
        in ``quarantine.jsonl``.

        Raises:
            MachineError: the store cannot be read.
        """
        lines = self.journal(place, workload).read()
        verdicts: dict[str, Verdict] = {}
        for line in lines:
            if isinstance(line.value, Verdict):
                found = line.value
                before = verdicts.get(found.record)
                if before is None or _weight(found) > _weight(before):
                    verdicts[found.record] = found
        return [StoredRecord._of(line, verdicts.get(line.digest)) for line in lines if line.kind == "record"]

    def comparisons(self, place: TuningContext, workload: str) -> dict[str, Comparison]:
        """The intact comparisons of a workload's records by their digests, in order of first appearance.

        Raises:
            MachineError: the store cannot be read.
        """
        lines = self.journal(place, workload).read()
        return {line.digest: line.value for line in lines if isinstance(line.value, Comparison)}

    def define(self, place: TuningContext, workload: str, description: Mapping[str, Any]) -> None:
        """Keep what a workload is: a JSON object, with its ``name`` for people. The first description stays.

        Raises:
            InputError: it is no JSON, or larger than 16 MiB.
            MachineError: the store cannot be written.
        """
        path = self._description_path(place, workload)
        if self.description(place, workload) is None:
            line = _encoded(place, workload, Description(dict(description)))
            self.settle(place)
            with saving(path):
                write_bytes(path, line)

    def description(self, place: TuningContext, workload: str) -> dict[str, Any] | None:
        """What :meth:`define` kept; None if there is nothing, or it is damaged."""
        line = self.description_line(place, workload)
        if line is None or not isinstance(line.value, Description):
            return None
        return line.value.root

    def description_line(self, place: TuningContext, workload: str) -> Line | None:
        """The line that holds the description."""
        line = read_single(self._description_path(place, workload))
        if not isinstance(line, Line):
            return None
        fits = (line.kind, line.place, line.workload) == ("description", place.digest, workload)
        return line if fits else None

    def places(self) -> list[TuningContext]:
        """Every place with a readable ``place.json``, sorted by generation, target and device class."""
        found = [self.place_in(directory) for directory in self.place_directories()]
        places = [place for place in found if place is not None]
        return sorted(places, key=lambda place: (place.generation, place.target, place.device_class))

    def workloads(self, place: TuningContext) -> list[str]:
        """Keys of the place's workloads, sorted."""
        return [path.name for path in _directories(self.directory(place)) if _KEY.fullmatch(path.name)]

    def settle(self, place: TuningContext) -> None:
        """Write the place's ``place.json``, unless it is there.

        Raises:
            InputError: the directory holds another place.
            MachineError: the store cannot be written.
        """
        directory = self.directory(place)
        line = read_single(directory / "place.json")
        if isinstance(line, Line) and line.kind == "definition":
            if line.place != place.digest:
                raise InputError(
                    str(directory),
                    "holds the records of another place than its name says",
                    "move it away, and add it with `tvmake records import`",
                )
        else:
            with saving(directory):
                write_bytes(directory / "place.json", _encoded(place, None, place))

    def journal(self, place: TuningContext, workload: str) -> Journal:
        """The workload's file."""
        return Journal(self._workload_directory(place, workload), place.digest, workload)

    def directory(self, place: TuningContext) -> Path:
        """Where a place's workloads are."""
        return self.root / place.generation / place.digest

    def place_directories(self) -> Iterator[Path]:
        """Every directory that is named like a place."""
        for generation in _directories(self.root):
            yield from (path for path in _directories(generation) if _KEY.fullmatch(path.name))

    def place_in(self, directory: Path) -> TuningContext | None:
        """The place that a directory holds; None if its place.json is missing, or names another place than the directory."""
        line = read_single(directory / "place.json")
        if isinstance(line, Line) and isinstance(line.value, TuningContext) and self.directory(line.value) == directory:
            return line.value
        return None

    def _description_path(self, place: TuningContext, workload: str) -> Path:
        return self._workload_directory(place, workload) / "workload.json"

    def _workload_directory(self, place: TuningContext, workload: str) -> Path:
        if not _KEY.fullmatch(workload):
            raise InputError(workload[:80], "is no workload's key", "a key is a sha256: 64 hexadecimal digits")
        return self.directory(place) / workload


def open_store(root: Path | str | None = None) -> RecordStore:
    """The store in a directory, which need not exist yet; by default the user's.

    Raises:
        InputError: it is something else than a directory, or below such a thing.
    """
    store = RecordStore(Path(root) if root is not None else None)
    existing = next(path for path in (store.root, *store.root.absolute().parents) if os.path.lexists(path))
    if not existing.is_dir():
        problem = "is no directory" if existing == store.root else f"cannot be a directory: {existing} is none"
        raise InputError(str(store.root), problem, "name a directory for the records (`tuning.store`, `--store`)")
    return store


def read_single(path: Path) -> Line | BadLine | None:
    """The line in a file of one; None if there is no such file."""
    try:
        with reading(path), open_plain(path) as file:
            return decode(file.read().removesuffix(b"\n"))
    except FileNotFoundError:
        return None
    except BadLine as error:
        return error


def _encoded(
    place: TuningContext, workload: str | None, value: Record | Verdict | Comparison | Description | TuningContext
) -> bytes:
    try:
        return encode(place.digest, workload, value)
    except BadLine as error:
        where = f"workload {workload[:12]}" if workload else "place"
        raise InputError(where, f"a {type(value).__name__.lower()} that cannot be kept: {error}") from None


def _weight(verdict: Verdict) -> tuple[Any, bool]:
    return moment(verdict.checked_at), not verdict.right


def _directories(parent: Path) -> list[Path]:
    try:
        with reading(parent):
            return sorted(path for path in parent.iterdir() if path.is_dir() and not path.name.startswith((".", "_")))
    except FileNotFoundError:
        return []
