"""Limits of time and memory for reading files from elsewhere: a small file must not occupy a machine.

The process that reads says what it allows itself; the one that forked it watches, since neither a loop inside a library
nor one huge integer lets the reader's own Python run. Measured is the growth since the block began, of the memory and of
the busiest thread's processor time, so that neither loaded libraries nor the machine's load or cores count.
"""

import faulthandler
import json
import os
import resource
import select
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmake.errors import KINDS, InputError, TvmakeError
from tvmake.process.fork import disable_core_dumps, run_forked
from tvmake.process.stopping import STOPPED
from tvmake.storage.refusals import system_error

POLL_S = 0.03
"""How often a reader is looked at; in this time memory grows by some ten MB."""

PAGE_BYTES, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")

BASE_S, S_PER_MB = 20.0, 4.0
BASE_MB, MEMORY_PER_BYTE = 320, 30
"""What reading a file may take, and how much more for its size. Ordinary networks take a tenth of it."""

WHOLE: Mapping[str, Any] = {"whole": True}
"""What a process says when its work came to an end."""

_watcher: int | None = None
"""The pipe to the process that watches this one."""

_blocks: list[Mapping[str, Any]] = []


@dataclass(frozen=True)
class Limits:
    """How much processor time and memory a block of work may take."""

    processor_s: float
    memory_mb: int

    @classmethod
    def for_files(cls, files: Sequence[Path]) -> "Limits":
        """Limits for reading files, by their sizes on the disk; the holes of a file count nothing."""
        size = 0
        for file in files:
            with suppress(OSError):
                there = file.stat()
                size += min(there.st_size, there.st_blocks * 512)
        return cls(BASE_S + S_PER_MB * size / 1e6, BASE_MB + MEMORY_PER_BYTE * size // 1_000_000)


@contextmanager
def limited(limits: Limits, where: str, remedy: str | None = None) -> Iterator[None]:
    """Do the work of the block within limits.

    In a process of :func:`run_watched` exceeding them ends the process, with an InputError that names ``where``. In
    another one nothing is limited.
    """
    with _block(where=where, remedy=remedy, processor_s=limits.processor_s, memory_mb=limits.memory_mb):
        yield


@contextmanager
def named(where: str) -> Iterator[None]:
    """Do the work of the block in the name of ``where``, which :attr:`Ended.within` is if it ends a process of :func:`run_watched`."""
    with _block(where=where):
        yield


@contextmanager
def _block(**report: str | float | None) -> Iterator[None]:
    _blocks.append(report)
    _tell(report)
    try:
        yield
    finally:
        _blocks.pop()
        _tell(_blocks[-1] if _blocks else None)


def _tell(report: Mapping[str, Any] | None) -> None:
    if _watcher is not None:
        with suppress(OSError):
            os.write(_watcher, json.dumps(report).encode() + b"\n")


@dataclass(frozen=True)
class Ended:
    """How a watched process ended."""

    code: int
    """Its exit code, negative for a signal."""
    usage: resource.struct_rusage
    exceeded: TvmakeError | None
    """Why it was ended, if it exceeded a limit."""
    is_whole: bool
    """Whether its work came to an end; not where something in it ended the process."""
    within: str | None
    """The innermost block that it was in when it ended."""


def run_watched(work: Callable[[], int | None]) -> Ended:
    """Do ``work`` in a fork, as :func:`run_forked`, and end it where it exceeds what it said with :func:`limited`."""
    reading, writing = os.pipe()
    watch = _Watch(reading)

    def child() -> int | None:
        global _watcher
        os.close(reading)
        _watcher = writing
        _blocks.clear()
        try:
            return work()
        finally:
            _tell(WHOLE)

    def wait(process: int) -> tuple[int, resource.struct_rusage]:
        os.close(writing)
        watch.until_end(process)
        return os.wait4(process, 0)[1:]

    try:
        code, usage = run_forked(child, wait)
    finally:
        os.close(reading)
    return Ended(code, usage, watch.exceeded, watch.is_whole, watch.within)


def isolated(
    work: Callable[[], bytes],
    where: str,
    what: str = "reading it",
    remedy: str | None = "the file is damaged or hostile",
) -> bytes:
    """What ``work`` gives, done in a watched fork, so that a library that crashes or does not end is one clear line.

    Args:
        where: what the work is about, for errors.
        what: the work, in a few words.
        remedy: what to do where it ends the process.

    Raises:
        TvmakeError: what ``work`` raised of it.
        InputError: the process crashed, or exceeded its limits; ``where`` is the innermost block (:func:`named`) that it was in.
    """
    with os.fdopen(os.memfd_create("answer"), "r+b") as answer:

        def child() -> int:
            faulthandler.disable()
            disable_core_dumps()
            try:
                given = b"+" + work()
            except TvmakeError as error:
                kind = next((name for name, kind in KINDS.items() if type(error) is kind), "InputError")
                given = json.dumps([kind, error.where, error.problem, error.remedy]).encode()
            except OSError as error:
                refused = system_error(error.errno or 0, str(error.filename or where))
                if refused is None:
                    raise
                given = json.dumps(["MachineError", refused.where, refused.problem, refused.remedy]).encode()
            answer.write(given)
            answer.flush()
            return 0

        ended = run_watched(child)
        if ended.exceeded is not None:
            raise ended.exceeded
        if ended.code in STOPPED:
            raise KeyboardInterrupt
        if ended.code != 0 or not ended.is_whole:
            how = signal.Signals(-ended.code).name if ended.code < 0 else f"code {ended.code}"
            raise InputError(ended.within or where, f"{what} ended the process with {how}", remedy)
        answer.seek(0)
        given = answer.read()
    if given[:1] == b"+":
        return given[1:]
    kind, *words = json.loads(given)
    raise KINDS[kind](*words)


class _Watch:
    """Looks at a process while it is within a block with limits."""

    def __init__(self, reports: int):
        self.exceeded: TvmakeError | None = None
        self.is_whole = False
        self._reports = reports
        self._block: dict[str, Any] | None = None
        self._memory_mb = 0
        self._processor_s: dict[str, float] = {}

    def until_end(self, process: int) -> None:
        """Return when the process has ended, by itself or by what it exceeded, and all that it said was read."""
        ended = os.pidfd_open(process)
        try:
            watched = select.poll()
            watched.register(ended, select.POLLIN)
            watched.register(self._reports, select.POLLIN)
            while True:
                events = dict(watched.poll(POLL_S * 1000 if self._is_limited else None))
                if self._reports in events and not self._receive(process):
                    watched.unregister(self._reports)
                if ended in events:
                    return
                if self._is_limited and self.exceeded is None:
                    self.exceeded = self._excess(process, self._block or {})
                    if self.exceeded is not None:
                        signal.pidfd_send_signal(ended, signal.SIGKILL)
        finally:
            os.close(ended)

    @property
    def within(self) -> str | None:
        return self._block["where"] if self._block else None

    @property
    def _is_limited(self) -> bool:
        return self._block is not None and "memory_mb" in self._block

    def _receive(self, process: int) -> bool:
        text = os.read(self._reports, 1 << 16)
        if not text:  # it is ending, in the block that it was in
            return False
        if not text.endswith(b"\n"):
            self._block = None
            return True
        block = json.loads(text.splitlines()[-1])
        if block == WHOLE:
            self.is_whole, block = True, None
        was_limited, self._block = self._is_limited, block
        if self._is_limited and not was_limited:
            self._memory_mb, self._processor_s = _memory_mb(process), _processor_s(process)
        return True

    def _excess(self, process: int, block: dict[str, Any]) -> TvmakeError | None:
        if _memory_mb(process) - self._memory_mb > block["memory_mb"]:
            problem = f"reading it takes more than {block['memory_mb']} MB of memory, too much for its size"
            return InputError(block["where"], problem, block["remedy"])
        used = max((now - self._processor_s.get(one, 0) for one, now in _processor_s(process).items()), default=0)
        if used > block["processor_s"]:
            problem = f"reading it takes more than {block['processor_s']:.0f} s, too long for its size"
            return InputError(block["where"], problem, block["remedy"])
        return None


def _memory_mb(process: int) -> int:
    """What is in memory of a process; 0 of one that has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE_BYTES >> 20
    except (OSError, IndexError):
        return 0


def _processor_s(process: int) -> dict[str, float]:
    """The processor time of each thread."""
    used = {}
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError, IndexError):
                fields = (thread / "stat").read_text().rpartition(")")[2].split()
                used[thread.name] = (int(fields[11]) + int(fields[12])) / TICKS
    return used
