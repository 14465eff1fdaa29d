"""Time candidates on this machine."""

import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import tvm

from tvmake.config.device import Conditioning
from tvmake.config.tuning import TrialMeasurement
from tvmake.device.conditioning.files import LocalFiles
from tvmake.device.fingerprint import usable_cores
from tvmake.device.time_slots import LocalSlots
from tvmake.process.worker import WorkerEnded, WorkerTimeout
from tvmake.records.record import Status
from tvmake.storage.refusals import check_loadable
from tvmake.targets.backends import device_kind
from tvmake.tune.measure.builders import Builders, Building, Kernel, Samples, candidate_result
from tvmake.tune.measure.interface import Candidate, Measured
from tvmake.tune.measure.kernel import Loop
from tvmake.tune.measure.machine_faults import check_machine
from tvmake.tune.measure.pause_others import IS_SUPPORTED, others_paused, socket_directory
from tvmake.tune.measure.scratch import Scratch
from tvmake.tune.measure.workers.processes import MeasuringWorker, WorkerSource
from tvmake.tune.measure.workers.protocol import Failed
from tvmake.tune.measure.workers.run_worker import Load, RunOptions, Time

REUSES = 64
"""Number of candidates that one process times on a GPU; loaded libraries stay in its memory."""


class LocalMeasurer:
    """Build and time candidates on this machine; a :class:`tvmake.tune.measure.interface.Measurer`.

    While one candidate is timed on the CPU, this job's builds and then other jobs continue on the cores that the kernel does
    not use; the rest are paused. On two cores, a kernel of two threads is measured 2.3 times too slow beside two builds.

    Args:
        device_name: name of the lease: one candidate is timed at a time, across processes.
        threads: threads of the kernel (TVM_NUM_THREADS); all cores if None.
        env: environment variables for the processes that run kernels.
        conditioning: conditioning of this machine, before a batch and around each candidate.
    """

    def __init__(
        self,
        target: "tvm.target.Target",
        options: TrialMeasurement,
        builders: int,
        device_name: str = "local",
        threads: int | None = None,
        env: Mapping[str, str] | None = None,
        driver: str = "g++",
        conditioning: Conditioning | None = None,
    ):
        self._options = options
        self._slots = LocalSlots(device_name, LocalFiles(f"device '{device_name}'"), conditioning)
        self._is_rested = False
        kind = device_kind(target)
        self._on_cpu = kind == "cpu"
        busy = (threads or usable_cores()) if self._on_cpu else 1
        self._spare_cores = max(usable_cores() - busy, 0)
        self._others_running = max(self._spare_cores - builders, 0) // builders
        self._pause_directory = socket_directory(device_name) if IS_SUPPORTED else None
        environment = {"TVM_USE_RUNTIME_LIB": "1", **(env or {})}
        if threads:
            environment["TVM_NUM_THREADS"] = str(threads)
        self._reusable: MeasuringWorker | None = None
        self._served = 0
        check_loadable(Path(tempfile.gettempdir()))
        self._scratch = Scratch()
        run = RunOptions(kind, Loop.of(options))
        self._runners = WorkerSource("run", run, self._scratch.path, environment, self._pause_directory)
        self._builders = Builders(
            target, driver, builders, options.build_timeout_s, self._scratch.path, self._pause_directory
        )

    def measure(self, candidates: Sequence[Candidate]) -> Generator[Measured, None, None]:
        self._is_rested = False
        with self._builders.building(candidates) as building:
            for _ in candidates:
                outcome = building.done.get()
                if isinstance(outcome, BaseException):
                    raise outcome
                if isinstance(outcome, Kernel):
                    result = self._time(outcome, building)
                    outcome.library.unlink(missing_ok=True)
                    yield result
                else:
                    yield outcome

    def close(self) -> None:
        self._builders.close()
        if self._reusable is not None:
            self._reusable.close()
        self._runners.close()
        self._scratch.close()
        self._slots.close()

    @contextmanager
    def _exclusive(self) -> Iterator[Mapping[str, str]]:
        with self._slots.slot(None, not self._is_rested, lambda: False) as conditions:
            self._is_rested = True
            # A GPU is timed by its own clock.
            if self._pause_directory is None or not self._on_cpu:
                yield conditions
            else:
                with others_paused(self._pause_directory, self._others_running):
                    yield conditions

    @contextmanager
    def _runner(self) -> Iterator[MeasuringWorker]:
        """Yield the process that times a candidate. It ends with the block unless :meth:`_reuse` keeps it: opening a GPU's driver
        takes longer than timing (0.1 to 0.5 s with NVIDIA's, serialised between processes)."""
        worker, self._reusable = self._reusable or self._runners.fork(), None
        self._served += 1
        try:
            yield worker
        finally:
            if self._reusable is None:
                worker.close()
                self._served = 0

    def _reuse(self, worker: MeasuringWorker) -> None:
        if not self._on_cpu and self._served < REUSES:
            self._reusable = worker

    def _time(self, kernel: Kernel, building: Building) -> Measured:
        began = time.monotonic()
        waited = 0.0
        conditions: Mapping[str, str] = {}

        def outcome(status: Status, samples: Samples = (), error: str | None = None) -> Measured:
            run_s = time.monotonic() - began - waited
            return candidate_result(kernel, status, samples, error, run_s, conditions)

        with self._runner() as worker:
            try:
                answer = worker.ask(Load(kernel.library, kernel.arguments), self._options.timeout_s)
                if not isinstance(answer, Failed):
                    requested = time.monotonic()
                    with self._exclusive() as conditions, building.pause(running=self._spare_cores):
                        waited = time.monotonic() - requested
                        left = self._options.timeout_s - (time.monotonic() - began - waited)
                        answer = worker.ask(Time(), max(left, 0))
            except WorkerTimeout:
                return outcome("timeout", error=f"did not end within {self._options.timeout_s:g} s")
            except WorkerEnded as ended:
                check_machine(ended.last_words)
                return outcome("run_error", error=ended.line("the kernel"))
            if not isinstance(answer, Failed):  # which can leave a GPU's context unusable
                self._reuse(worker)
        if isinstance(answer, Failed):
            check_machine(answer.line)
            return outcome("run_error", error=answer.line)
        conditions = {**conditions, **answer.conditions}
        return outcome("ok", answer.samples_s)
