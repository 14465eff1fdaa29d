"""Progress of running searches: a line per kernel, from the event logs of tuning jobs."""

import json
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.progress import Progress, TaskID

from tvmake.report.quantities import rate

POLL_S = 0.5


@dataclass
class Kernel:
    """State of a running search."""

    events: Path
    line: TaskID | None
    earlier: tuple[int, int] | None = None
    """Inode and change time of an earlier run's log, which Snakemake removes when the job starts."""
    offset: int = 0
    """Bytes that were read."""
    name: str = ""
    trials: int = 0
    trial: int = 0
    first: int = 0
    """The first trial of this run."""
    failed: int = 0
    best_ms: float | None = None
    gflops: float | None = None
    """Of the best candidate."""
    now_ms: float | None = None
    """Of the last measured candidate."""
    at_s: float = 0.0
    why: str = ""
    throttled: int = 0
    """Number of candidates measured while the device was throttled."""
    aside: list[str] = field(default_factory=list)
    """Devices that were set aside, with the reason."""
    message: str = ""
    """The job's summary."""
    rest: bytes = field(default=b"", repr=False)

    def read(self) -> bool:
        """Read new events; returns whether there were any."""
        try:
            with self.events.open("rb") as file:
                if _identity(os.fstat(file.fileno())) == self.earlier:
                    return False
                if file.seek(0, os.SEEK_END) < self.offset:
                    self.offset, self.rest = 0, b""
                file.seek(self.offset)
                new = file.read()
        except FileNotFoundError:
            return False
        self.offset += len(new)
        *lines, self.rest = (self.rest + new).split(b"\n")
        for line in lines:
            try:
                self._take(json.loads(line))
            except ValueError:
                continue  # incomplete: the job was killed
        return bool(lines)

    def _take(self, event: dict[str, Any]) -> None:
        self.at_s = event["at_s"]
        if event["event"] == "start":
            # A job that compares layouts searches for several kernels, one after the other.
            self.name, self.trials = event["name"], event["trials"]
            self.trial = self.first = self.failed = self.throttled = 0
            self.aside = []
            self.best_ms, self.gflops, self.now_ms, self.why = None, None, None, ""
        elif event["event"] == "trial":
            self.trial = event["trial"]
            self.first = self.first or self.trial
            self.failed += event["status"] not in ("ok", "device_lost")  # a lost device is not the candidate's fault
            self.throttled += event.get("throttled", False)
            self.best_ms, self.gflops, self.now_ms = event["best_ms"], event["gflops"], event["latency_ms"]
        elif event["event"] == "stop":
            self.why = event["why"]
            self.best_ms, self.gflops = event["best_ms"], event["gflops"]
        elif event["event"] == "aside":
            self.aside += [event["message"]] if event["message"] not in self.aside else []
        elif event["event"] == "layout":
            self.message = event["message"]

    def summary(self) -> str:
        """``best 0.81 ms, 141 GFLOPS, now 0.95 ms, 120 GFLOPS, 3 failed, 8 s left``."""
        if self.message:
            return self.message
        parts = []
        if self.best_ms is not None:
            parts.append(f"best {self.best_ms:.4g} ms")
        if self.gflops:
            parts.append(f"{rate(self.gflops)} GFLOPS")
        if not self.why and self.best_ms and self.now_ms:
            parts.append(f"now {self.now_ms:.4g} ms")
            if self.gflops:
                parts.append(f"{rate(self.gflops * self.best_ms / self.now_ms)} GFLOPS")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if not self.why and self.first and self.at_s and self.trials > self.trial:
            measured = self.trial - self.first + 1
            parts.append(f"{self.at_s / measured * (self.trials - self.trial):.0f} s left")
        if self.throttled:
            parts.append(f"{self.throttled} throttled")
        if self.why not in ("", "budget"):
            parts.append(self.why)
        parts += self.aside
        return ", ".join(parts)


def _identity(known: os.stat_result) -> tuple[int, int]:
    return known.st_ino, known.st_ctime_ns


class TuningProgress:
    """The running searches. With a bar, each is a line of it."""

    def __init__(self, bar: Progress | None):
        self.bar = bar
        self.kernels: dict[int, Kernel] = {}
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None

    def started(self, job: int, events: Path, label: str) -> None:
        """Add a tuning job that started."""
        try:
            earlier = _identity(events.stat())
        except FileNotFoundError:
            earlier = None
        with self.lock:
            line = self.bar.add_task(f"  {label}", total=None) if self.bar else None
            self.kernels[job] = Kernel(events, line, earlier)
        if self.bar is not None and self.thread is None:
            self.thread = threading.Thread(target=self._poll, name="tvmake-tuning", daemon=True)
            self.thread.start()

    def finished(self, job: int) -> str:
        """Remove a job that ended; returns the summary of its search, empty for other jobs."""
        with self.lock:
            kernel = self.kernels.pop(job, None)
            if kernel is None:
                return ""
            kernel.read()
            if self.bar is not None and kernel.line is not None:
                self.bar.remove_task(kernel.line)
            kernel.why = kernel.why or "ended"
            return kernel.summary()

    def close(self) -> None:
        """Stop polling."""
        self.ended.set()
        if self.thread is not None:
            self.thread.join()

    def _poll(self) -> None:
        while not self.ended.wait(POLL_S):
            with self.lock:
                for kernel in self.kernels.values():
                    if kernel.read() and self.bar is not None and kernel.line is not None:
                        text = f"  {kernel.name}  {kernel.summary()}"
                        self.bar.update(kernel.line, description=text, completed=kernel.trial, total=kernel.trials)
