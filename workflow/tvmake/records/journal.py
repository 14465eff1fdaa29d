"""The file of one workload's records. Lines are appended; damaged lines are moved to a quarantine file.

Writers hold a lock; readers need none. A killed writer may leave an incomplete last line. The next writer ends it with
a line break, and it is quarantined like any other damaged line.
"""

import gc
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from tvmake.errors import MachineError
from tvmake.records.line import ENTRIES, BadLine, Line, decode
from tvmake.storage.disk import append, reading, saving
from tvmake.storage.files import atomic_path
from tvmake.storage.plain_files import open_plain

LOCK_TIMEOUT_S = 120.0
"""No process holds the lock for longer than it takes to rewrite one file."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A line of the file."""

    number: int
    """Line number, from 1."""
    raw: bytes
    """Without the line break."""
    content: Line | BadLine
    is_unfinished: bool
    """It has no line break: a writer may still be appending to it."""


class Journal:
    """The records, verdicts and comparisons of one workload in one context.

    Args:
        directory: the file's directory, which need not exist yet.
        context: the context's digest; lines of another context are bad.
        workload: the workload's key; lines of another workload are bad.
    """

    def __init__(self, directory: Path, context: str, workload: str):
        self.directory = directory
        self.path = directory / "records.jsonl"
        self.quarantine = directory / "quarantine.jsonl"
        self._context, self._workload = context, workload

    def append(self, lines: bytes) -> None:
        """Append complete lines; returns after they are on the disk.

        Raises:
            MachineError: they could not be written; the file is unchanged.
        """
        with self._locked():
            append(self.path, lines)

    def extend(self, lines: Iterable[tuple[str, bytes]]) -> int:
        """Append the lines (digest, bytes) whose digest is new; returns their number."""
        with self._locked():
            known = {piece.content.digest for piece in self.scan() if isinstance(piece.content, Line)}
            fresh = {digest: line for digest, line in lines if digest not in known}
            if fresh:
                append(self.path, b"".join(fresh.values()))
        return len(fresh)

    def read(self) -> list[Line]:
        """The distinct intact lines in order of first appearance; bad lines are quarantined.

        If the file cannot be written, bad lines stay in it and are skipped.

        Raises:
            MachineError: the file cannot be read.
        """
        lines, has_bad = self._read()
        if has_bad:
            try:
                # A writer may be in the middle of a line, so only lines that are bad under the lock are bad.
                self.rewrite(lambda _: True)
            except MachineError:
                return lines  # the file system is read-only or full
            lines, _ = self._read()
        return lines

    def scan(self) -> Iterator[Piece]:
        """All lines of the file, intact and bad; the file is unchanged.

        Raises:
            MachineError: the file cannot be read.
        """
        try:
            with reading(self.path), open_plain(self.path) as file:
                for number, line in enumerate(file, start=1):
                    raw = line.removesuffix(b"\n")
                    if raw.strip():
                        yield Piece(number, raw, self._decode_line(raw), is_unfinished=not line.endswith(b"\n"))
        except FileNotFoundError:
            return

    def rewrite(self, keep: Callable[[Line], bool]) -> int:
        """Drop duplicates and lines that ``keep`` refuses, and quarantine bad lines; returns the number of refused lines.

        Raises:
            MachineError: the file could not be written; it is unchanged.
        """
        with self._locked():
            return self._rewrite(keep) if self.path.exists() else 0

    def count_quarantined(self) -> int:
        """The number of quarantined lines."""
        try:
            with reading(self.quarantine), open_plain(self.quarantine) as file:
                return sum(1 for _ in file)
        except FileNotFoundError:
            return 0

    def _rewrite(self, keep: Callable[[Line], bool]) -> int:
        refused, seen, bad = 0, set(), []
        with saving(self.path), atomic_path(self.path) as temporary, temporary.open("wb") as file:
            for piece in self.scan():
                if isinstance(piece.content, BadLine):
                    bad.append((piece.raw, str(piece.content)))
                elif piece.content.digest not in seen:
                    seen.add(piece.content.digest)
                    if keep(piece.content):
                        file.write(piece.raw + b"\n")
                    else:
                        refused += 1
            # Before the new file replaces the old: a bad line may be in two files, never in none.
            self._quarantine(bad)
        return refused

    def _read(self) -> tuple[list[Line], bool]:
        lines: dict[str, Line] = {}
        has_bad = False
        with _no_collection():
            for piece in self.scan():
                if isinstance(piece.content, Line):
                    lines.setdefault(piece.content.digest, piece.content)
                else:
                    has_bad |= not piece.is_unfinished
        return list(lines.values()), has_bad

    def _decode_line(self, raw: bytes) -> Line | BadLine:
        try:
            line = decode(raw)
        except BadLine as error:
            return error
        if line.kind not in ENTRIES:
            return BadLine(f"is a {line.kind}, which belongs in another file")
        if (line.context, line.workload) != (self._context, self._workload):
            return BadLine("belongs to another context or workload")
        return line

    def _quarantine(self, bad: list[tuple[bytes, str]]) -> None:
        known = self._quarantined_lines()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        lines = b""
        for raw, reason in bad:
            # Bytes that are not UTF-8 become lone surrogates and these become JSON escapes, so nothing is lost.
            text = raw.decode(errors="surrogateescape")
            if text not in known:
                known.add(text)
                lines += json.dumps({"reason": reason, "found_at": now, "line": text}).encode() + b"\n"
        if lines:
            append(self.quarantine, lines)

    def _quarantined_lines(self) -> set[str]:
        known = set()
        try:
            with reading(self.quarantine), open_plain(self.quarantine) as file:
                for line in file:
                    try:
                        known.add(json.loads(line)["line"])
                    except (ValueError, KeyError, TypeError):
                        continue  # truncated by a kill; the bad line is still in the records and is quarantined again
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
    """Switch the cycle collector off: reading creates many objects and no cycles, and collection would take most of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
