"""Build many candidates in parallel, each in a separate process."""

import queue
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tvm

from tvmake.codegen.compiler_errors import explain
from tvmake.process.worker import WorkerEnded, WorkerTimeout
from tvmake.records.record import Status
from tvmake.records.workload import target_identity
from tvmake.tune.measure.interface import Candidate, Measured
from tvmake.tune.measure.kernel import ArgumentSet, weighted_samples
from tvmake.tune.measure.machine_faults import check_machine
from tvmake.tune.measure.workers.build_worker import Build, BuildOptions
from tvmake.tune.measure.workers.processes import MeasuringWorker, WorkerSource
from tvmake.tune.measure.workers.protocol import Failed

ATTEMPTS = 2
"""Number of build attempts if the builder's fork server is lost."""

CLOCK_FACTOR = 10
"""Factor of the wall-clock limit over the processor time limit, since other jobs may slow a build down."""


@dataclass(frozen=True)
class Kernel:
    """A built candidate."""

    number: int
    library: Path
    arguments: tuple[ArgumentSet, ...]
    """The arguments for each size at which it is timed."""
    build_s: float


Samples = tuple[tuple[float, ...], ...]
"""Seconds per run, one value per repeat, for each set of a kernel's arguments."""


def candidate_result(
    kernel: Kernel, status: Status, samples: Samples, error: str | None, run_s: float, conditions: Mapping[str, str]
) -> Measured:
    """The result of a built candidate."""
    combined, by_point = weighted_samples(samples, kernel.arguments) if samples else ((), ())
    return Measured(kernel.number, status, combined, error, kernel.build_s, run_s, conditions, by_point)


Outcome = Kernel | Measured | BaseException
"""A kernel to time, a failed candidate, or the end of the batch."""


class Builders:
    """Build candidates for one target.

    Args:
        pause_directory: see :class:`tvmake.tune.measure.workers.processes.WorkerSource`.
    """

    def __init__(
        self,
        target: "tvm.target.Target",
        driver: str,
        count: int,
        timeout_s: float,
        scratch: Path,
        pause_directory: Path | None = None,
    ):
        self._count = count
        self.timeout_s = timeout_s
        self.scratch = scratch
        options = BuildOptions(target_identity(target), driver, timeout_s)
        self.source = WorkerSource("build", options, scratch, {}, pause_directory)

    @contextmanager
    def building(self, candidates: Sequence[Candidate]) -> Iterator["Building"]:
        """Build candidates; unfinished builds are cancelled at the end of the block."""
        batch = Building(self, candidates)
        threads = [
            threading.Thread(target=batch.work, name=f"builder-{number}", daemon=True)
            for number in range(min(self._count, len(candidates)))
        ]
        for thread in threads:
            thread.start()
        try:
            yield batch
        finally:
            batch.stop()
            for thread in threads:
                thread.join()

    def close(self) -> None:
        """End all processes."""
        self.source.close()


class Building:
    """Parallel builds of candidates; each thread waits for one worker."""

    def __init__(self, builders: Builders, candidates: Sequence[Candidate]):
        self._builders = builders
        self._todo: queue.SimpleQueue[Candidate] = queue.SimpleQueue()
        for candidate in candidates:
            self._todo.put(candidate)
        self.done: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        """Receives one outcome per candidate."""
        self._lock = threading.Lock()
        self._working: set[MeasuringWorker] = set()
        self._paused: list[MeasuringWorker] = []
        self._paused_at: float | None = None
        self._paused_s = 0.0
        self._stopped = False
        self._clock_limit_s = builders.timeout_s * CLOCK_FACTOR

    @contextmanager
    def pause(self, running: int) -> Iterator[None]:
        """Pause all but ``running`` builds, and start none, until the block ends."""
        with self._lock:
            self._paused_at = time.monotonic()
            self._paused = list(self._working)[running:]
            for worker in self._paused:
                worker.pause()
        try:
            yield
        finally:
            with self._lock:
                self._paused_s += time.monotonic() - self._paused_at
                self._paused_at = None
                for worker in self._paused:
                    worker.resume()

    def clock(self) -> float:
        """Return the seconds during which builds were not paused."""
        with self._lock:
            return (self._paused_at or time.monotonic()) - self._paused_s

    def work(self) -> None:
        """Build until no candidate is left or the batch is stopped."""
        try:
            while not self._stopped:
                try:
                    candidate = self._todo.get_nowait()
                except queue.Empty:
                    return
                self.done.put(self._build(candidate))
        except BaseException as error:  # noqa: BLE001  # raised again where the queue is read
            self.done.put(error)

    def stop(self) -> None:
        """Start no more builds and cancel the running ones."""
        with self._lock:
            self._stopped = True
            working = list(self._working)
        for worker in working:
            worker.kill()

    def _build(self, candidate: Candidate) -> Outcome:
        began = self.clock()

        def failed(line: str, status: Status = "build_error") -> Measured:
            return Measured(candidate.number, status, error=line, build_s=self.clock() - began)

        library = self._builders.scratch / f"kernel-{candidate.number}-{time.monotonic_ns()}.so"
        try:
            request = Build(tvm.ir.save_json(candidate.module), library)
            arguments = candidate.argument_sets()
        except (ValueError, TypeError, RuntimeError, tvm.error.InternalError) as error:
            return failed(explain(error))
        for attempt in range(ATTEMPTS):
            try:
                answer = self._request(request)
            except WorkerTimeout:
                return failed(f"building did not end within {self._clock_limit_s:g} s", "timeout")
            except WorkerEnded as ended:
                if ended.code == -signal.SIGXCPU:
                    limit = f"{self._builders.timeout_s:g} s of processor time"
                    return failed(f"building did not end within {limit}", "timeout")
                if ended.code is None and attempt + 1 < ATTEMPTS and not self._stopped:
                    continue
                check_machine(ended.last_words, crashed=True)
                return failed(ended.line("the builder"))
            if isinstance(answer, Failed):
                check_machine(answer.line)
                return failed(answer.line)
            return Kernel(candidate.number, library, arguments, self.clock() - began)
        raise AssertionError("unreachable")

    def _request(self, request: Build) -> object:
        with self._builders.source.fork() as worker:
            with self._lock:
                if self._stopped:
                    raise WorkerEnded(None, "")
                self._working.add(worker)
                if self._paused_at is not None:
                    worker.pause()
                    self._paused.append(worker)
            try:
                return worker.ask(request, self._clock_limit_s, self.clock)
            finally:
                with self._lock:
                    self._working.discard(worker)
