"""Limits of time and memory for reading files from outside: a small file must not occupy a machine.

The reading process reports its limits, and the process that forked it enforces them: a loop inside a library, or one huge
integer, would keep the reader's own Python from running. Measured is the growth since the block began, of memory and of
the busiest thread's processor time, so loaded libraries, machine load and the number of cores do not matter.
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
"""The interval of measurements; meanwhile memory grows by some ten MB."""

PAGE_BYTES, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")

BASE_S, S_PER_MB = 20.0, 4.0
BASE_MB, MEMORY_PER_BYTE = 320, 30
"""The base limits for reading a file, and the increase with its size. Ordinary networks take a tenth of it."""

COMPLETE: Mapping[str, Any] = {"whole": True}
"""The report of a process that completed its work."""

_watcher: int | None = None
"""The pipe to the watching process."""

_blocks: list[Mapping[str, Any]] = []


@dataclass(frozen=True)
class Limits:
    """The maximum processor time and memory of a block of work."""

    processor_s: float
    memory_mb: int

    def __add__(self, other: "Limits") -> "Limits":
        return Limits(self.processor_s + other.processor_s, self.memory_mb + other.memory_mb)

    @classmethod
    def for_files(cls, files: Sequence[Path]) -> "Limits":
        """Limits for reading files, by their sizes on the disk; holes do not count."""
        size = 0
        for file in files:
            with suppress(OSError):
                there = file.stat()
                size += min(there.st_size, there.st_blocks * 512)
        return cls(BASE_S + S_PER_MB * size / 1e6, BASE_MB + MEMORY_PER_BYTE * size // 1_000_000)


@contextmanager
def limited(limits: Limits, where: str, remedy: str | None = None) -> Iterator[None]:
    """Run the work of the block within limits.

    In a process of :func:`run_watched`, exceeding them ends the process with an InputError about ``where``. In another
    process, nothing is limited.
    """
    with _block(where=where, remedy=remedy, processor_s=limits.processor_s, memory_mb=limits.memory_mb):
        yield


@contextmanager
def named(where: str) -> Iterator[None]:
    """Name the work of the block: :attr:`Ended.within` is the name if the work ends a process of :func:`run_watched`."""
    with _block(where=where):
        yield


@contextmanager
def _block(**report: str | float | None) -> Iterator[None]:
    _blocks.append(report)
    _report(report)
    try:
        yield
    finally:
        _blocks.pop()
        _report(_blocks[-1] if _blocks else None)


def _report(report: Mapping[str, Any] | None) -> None:
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
    """The limit that it exceeded; None otherwise."""
    is_whole: bool
    """Whether its work completed; False if something in it ended the process."""
    within: str | None
    """The innermost named block in which it ended."""


def run_watched(work: Callable[[], int | None]) -> Ended:
    """Run ``work`` in a fork, as :func:`run_forked` does, and end it if it exceeds the limits of :func:`limited`."""
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
            _report(COMPLETE)

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
    """The result of ``work``, computed in a watched fork, so that a library's crash or endless loop is one clear error.

    Args:
        where: the subject of the work, for errors.
        what: the work, in a few words.
        remedy: the remedy if it ends the process.

    Raises:
        TvmakeError: from ``work``.
        InputError: the process crashed or exceeded its limits; ``where`` is the innermost named block (:func:`named`).
    """
    with os.fdopen(os.memfd_create("answer"), "r+b") as answer:

        def child() -> int:
            faulthandler.disable()
            disable_core_dumps()
            try:
                answer_bytes = b"+" + work()
            except TvmakeError as error:
                kind = next((name for name, kind in KINDS.items() if type(error) is kind), "InputError")
                answer_bytes = json.dumps([kind, error.where, error.problem, error.remedy]).encode()
            except OSError as error:
                refused = system_error(error.errno or 0, str(error.filename or where))
                if refused is None:
                    raise
                answer_bytes = json.dumps(["MachineError", refused.where, refused.problem, refused.remedy]).encode()
            answer.write(answer_bytes)
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
        answer_bytes = answer.read()
    if answer_bytes[:1] == b"+":
        return answer_bytes[1:]
    kind, *words = json.loads(answer_bytes)
    raise KINDS[kind](*words)


class _Watch:
    """Watches a process while it is in a block with limits."""

    def __init__(self, reports: int):
        self.exceeded: TvmakeError | None = None
        self.is_whole = False
        self._reports = reports
        self._block: dict[str, Any] | None = None
        self._memory_mb = 0
        self._processor_s: dict[str, float] = {}

    def until_end(self, process: int) -> None:
        """Return when the process has ended, by itself or for exceeding a limit, and all its reports were read."""
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
        if not text:  # it is ending in the last block
            return False
        if not text.endswith(b"\n"):
            self._block = None
            return True
        block = json.loads(text.splitlines()[-1])
        if block == COMPLETE:
            self.is_whole, block = True, None
        was_limited, self._block = self._is_limited, block
        if self._is_limited and not was_limited:
            self._memory_mb, self._processor_s = _memory_mb(process), _processor_s(process)
        return True

    def _excess(self, process: int, block: dict[str, Any]) -> TvmakeError | None:
        if _memory_mb(process) - self._memory_mb > block["memory_mb"]:
            problem = f"reading it takes more than {block['memory_mb']} MB of memory, too much for its size"
            return InputError(block["where"], problem, block["remedy"])
        growth_s = max(
            (now - self._processor_s.get(thread, 0) for thread, now in _processor_s(process).items()), default=0
        )
        if growth_s > block["processor_s"]:
            problem = f"reading it takes more than {block['processor_s']:.0f} s, too long for its size"
            return InputError(block["where"], problem, block["remedy"])
        return None


def _memory_mb(process: int) -> int:
    """A process's resident memory in MB; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE_BYTES >> 20
    except (OSError, IndexError):
        return 0


def _processor_s(process: int) -> dict[str, float]:
    """The processor time of each thread, in seconds."""
    seconds = {}
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError, IndexError):
                fields = (thread / "stat").read_text().rpartition(")")[2].split()
                seconds[thread.name] = (int(fields[11]) + int(fields[12])) / TICKS
    return seconds
