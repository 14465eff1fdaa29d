"""The file that holds one workload's records: lines are added at its end, and bad ones are set aside.

Writers take turns by a lock; readers need none. What a killed writer leaves is a last line without its end. It stays
where it is until somebody writes again: then a line break closes it, and it is set aside like any other bad line.
"""

import gc
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from filelock import FileLock, Timeout

from tvmake.errors import MachineError
from tvmake.records.line import ENTRIES, START, BadLine, Line, decode
from tvmake.storage.disk import append, reading, saving
from tvmake.storage.files import atomic_path
from tvmake.storage.plain_files import open_plain

LOCK_TIMEOUT_S = 120.0
"""Nobody holds the lock for longer than it takes to rewrite one file."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A line of the file, or part of a bad one."""

    number: int
    """Of the line, from 1."""
    raw: bytes
    """Without the line break."""
    found: Line | BadLine
    is_unfinished: bool
    """It has no line break: its writer may still be at it."""


class Journal:
    """The records, verdicts and comparisons of one workload in one place.

    Args:
        directory: where the file is, or will be.
        place: digest of the place; lines that name another one are bad.
        workload: the workload's key, likewise.
    """

    def __init__(self, directory: Path, place: str, workload: str):
        self.directory = directory
        self.path = directory / "records.jsonl"
        self.quarantine = directory / "quarantine.jsonl"
        self._place, self._workload = place, workload

    def append(self, lines: bytes) -> None:
        """Add complete lines; returns when they are on the disk.

        Raises:
            MachineError: they could not be written; the file is as it was.
        """
        with self._locked():
            append(self.path, lines)

    def extend(self, lines: Iterable[tuple[str, bytes]]) -> int:
        """Add those lines (digest, bytes) whose digest is not there yet; returns how many."""
        with self._locked():
            known = {piece.found.digest for piece in self.scan() if isinstance(piece.found, Line)}
            fresh = {digest: line for digest, line in lines if digest not in known}
            if fresh:
                append(self.path, b"".join(fresh.values()))
        return len(fresh)

    def read(self) -> list[Line]:
        """The intact lines, each once, in order of first appearance; bad ones are set aside.

        Where the file cannot be written, bad lines stay and are left out again next time.

        Raises:
            MachineError: the file cannot be read.
        """
        lines, has_bad = self._read()
        if has_bad:
            try:
                # A reader may meet a writer at work, so only what is still bad under the lock is bad.
                self.rewrite(lambda _: True)
            except MachineError:
                return lines  # read-only or full; reading goes on, as documented above
            lines, _ = self._read()
        return lines

    def scan(self) -> Iterator[Piece]:
        """Everything in the file, good and bad; it is left alone.

        Raises:
            MachineError: the file cannot be read.
        """
        try:
            with reading(self.path), open_plain(self.path) as file:
                for number, line in enumerate(file, start=1):
                    raw = line.removesuffix(b"\n")
                    if raw.strip():
                        for piece, found in self._salvaged(raw):
                            yield Piece(number, piece, found, is_unfinished=not line.endswith(b"\n"))
        except FileNotFoundError:
            return

    def rewrite(self, keep: Callable[[Line], bool]) -> int:
        """Drop duplicates and the lines that ``keep`` refuses, set bad ones aside; returns how many were refused.

        Raises:
            MachineError: the file could not be written; it is as it was.
        """
        with self._locked():
            return self._rewrite(keep) if self.path.exists() else 0

    def set_aside(self) -> int:
        """How many bad lines were set aside."""
        try:
            with reading(self.quarantine), open_plain(self.quarantine) as file:
                return sum(1 for _ in file)
        except FileNotFoundError:
            return 0

    def _rewrite(self, keep: Callable[[Line], bool]) -> int:
        refused, seen, bad = 0, set(), []
        with saving(self.path), atomic_path(self.path) as temporary, temporary.open("wb") as file:
            for piece in self.scan():
                if isinstance(piece.found, BadLine):
                    bad.append((piece.raw, str(piece.found)))
                elif piece.found.digest not in seen:
                    seen.add(piece.found.digest)
                    if keep(piece.found):
                        file.write(piece.raw + b"\n")
                    else:
                        refused += 1
            # Before the file takes its name: a bad line is in two files for a moment, never in none.
            self._quarantine(bad)
        return refused

    def _read(self) -> tuple[list[Line], bool]:
        lines: dict[str, Line] = {}
        has_bad = False
        with _no_collection():
            for piece in self.scan():
                if isinstance(piece.found, Line):
                    lines.setdefault(piece.found.digest, piece.found)
                else:
                    has_bad |= not piece.is_unfinished
        return list(lines.values()), has_bad

    def _salvaged(self, raw: bytes) -> Iterator[tuple[bytes, Line | BadLine]]:
        """A line; or where it is bad, the intact lines within: a damaged line break joins two."""
        whole = self._decoded(raw)
        starts = [] if isinstance(whole, Line) else [match.start() for match in re.finditer(re.escape(START), raw)]
        cuts = sorted({0, *starts, len(raw)})
        if len(cuts) == 2:
            yield raw, whole
            return
        for begin, end in pairwise(cuts):
            piece = raw[begin:end]
            found = self._decoded(piece)
            if isinstance(found, BadLine):
                # Without the damaged break at its end.
                shorter = self._decoded(piece[:-1])
                piece, found = (piece[:-1], shorter) if isinstance(shorter, Line) else (piece, found)
            yield piece, found

    def _decoded(self, raw: bytes) -> Line | BadLine:
        try:
            line = decode(raw)
        except BadLine as error:
            return error
        if line.kind not in ENTRIES:
            return BadLine(f"is a {line.kind}, which is kept elsewhere")
        if (line.place, line.workload) != (self._place, self._workload):
            return BadLine("belongs to another place or workload")
        return line

    def _quarantine(self, bad: list[tuple[bytes, str]]) -> None:
        known = self._quarantined()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        lines = b""
        for raw, reason in bad:
            # Bytes that are no UTF-8 become lone surrogates, and these JSON escapes: nothing is lost.
            text = raw.decode(errors="surrogateescape")
            if text not in known:
                known.add(text)
                lines += json.dumps({"reason": reason, "found_at": now, "line": text}).encode() + b"\n"
        if lines:
            append(self.quarantine, lines)

    def _quarantined(self) -> set[str]:
        known = set()
        try:
            with reading(self.quarantine), open_plain(self.quarantine) as file:
                for line in file:
                    try:
                        known.add(json.loads(line)["line"])
                    except (ValueError, KeyError, TypeError):
                        continue  # cut short by a kill; what it was about is still in the records and comes again
        except FileNotFoundError:
            pass
        return known

    @contextmanager
    def _locked(self) -> Iterator[None]:
        path = self.directory / "lock"
        lock = FileLock(path, timeout=LOCK_TIMEOUT_S)
        with saving(path):
            self.directory.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire()
            except Timeout:
                raise MachineError(
                    str(path),
                    f"another process has held this lock for {LOCK_TIMEOUT_S:.0f} s",
                    "end the process that hangs, then run the same command again",
                ) from None
        try:
            yield
        finally:
            lock.release()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Reading makes many objects that stay and no cycles; looking for cycles among them takes most of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
