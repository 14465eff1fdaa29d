"""The threads of a batch, each of which times candidates on one device at a time, and the recovery of lost devices."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tvmake.device.address import Address
from tvmake.device.rpc.messages import Lost, Open, Opened
from tvmake.device.rpc.session import BUSY_WAIT_S, CONNECT_S, LISTED_S, REFUSALS, SESSION_TIMEOUT
from tvmake.device.rpc.tracker import Tracker
from tvmake.device.time_slots import SlotCancelled, TimeSlots
from tvmake.device.transport.shell import Unreachable
from tvmake.errors import DeviceError
from tvmake.process.worker import WorkerEnded, WorkerTimeout
from tvmake.records.record import Status
from tvmake.tune.measure.builders import Kernel, Outcome, Samples, candidate_result
from tvmake.tune.measure.interface import Measured
from tvmake.tune.measure.workers.processes import MeasuringWorker, WorkerSource
from tvmake.tune.measure.workers.protocol import Failed
from tvmake.tune.measure.workers.run_worker import Timed
from tvmake.tune.measure.workers.session_worker import TimeThere

ATTEMPTS = 2
"""Attempts for a candidate while devices are lost; the candidate may cause the second loss."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
"""First pause before searching a lost device; each further pause is twice as long."""

FRESH_S = 1.0
"""A session younger than this has its full time left."""

OVER = "the batch is over"


@dataclass(frozen=True)
class Warn:
    """A warning for the user."""

    line: str
    is_set_aside: bool = False
    """Whether the warning concerns a device that is set aside."""


@dataclass(frozen=True)
class NoneLeft:
    """The last device was set aside."""

    line: str


class Batch:
    """State that the threads of a batch share.

    Args:
        built: built or failed candidates; threads put back those to try again.
        lost: addresses that do not answer; updated.
        time_slots: sharing of the devices with other jobs.
    """

    def __init__(
        self,
        tracker: Tracker,
        time_slots: TimeSlots,
        sessions: WorkerSource,
        built: "queue.SimpleQueue[Outcome]",
        count: int,
        lost: set[Address],
    ):
        self.tracker = tracker
        self.time_slots = time_slots
        self.sessions = sessions
        self.built: queue.SimpleQueue[Outcome | None] = built  # type: ignore[assignment]  # None ends a thread
        self.results: queue.SimpleQueue[Measured | Warn | NoneLeft | BaseException] = queue.SimpleQueue()
        self.over = threading.Event()
        self.lost = lost
        self.lock = threading.Lock()
        self.remaining = count
        """Threads that have not ended."""
        self.tried: dict[int, int] = {}
        """Number of losses of a device per running candidate."""
        self.working: set[MeasuringWorker] = set()
        self.rested: set[Address] = set()
        """Devices that were cooled down before this batch."""
        self._count = count

    def stop(self) -> None:
        """End all threads."""
        with self.lock:
            self.over.set()
            working = list(self.working)
        for worker in working:
            worker.kill()
        for _ in range(self._count):
            self.built.put(None)

    def leave(self, line: str, is_lost: bool) -> None:
        """Remove a thread, at the end of the batch or because its device is lost."""
        with self.lock:
            self.remaining -= 1
            left = self.remaining
            if is_lost:
                self.results.put(Warn(f"{line}; set aside, {left} left with key '{self.tracker.key}'", True))
            if left == 0:
                self.results.put(NoneLeft(line))

    def has_servers(self) -> bool:
        """Whether a server is left that is not known to be lost."""
        try:
            return any(address not in self.lost or address.is_reachable() for address in self.tracker.servers())
        except DeviceError:
            return False

    def is_back(self, address: Address | None) -> bool:
        """Whether a lost device, or a replacement, can be used again."""
        try:
            listed = self.tracker.servers()
        except DeviceError:
            return False
        if address in listed and address.is_reachable():
            with self.lock:
                self.lost.discard(address)
        return len(set(listed) - self.lost) >= self.remaining

    def answers(self, address: Address | None) -> bool:
        """Whether the device answers, even if it is busy."""
        try:
            return address in self.tracker.servers() and address.is_reachable()
        except DeviceError:
            return False


class _Gone(Exception):
    """No session: the device is missing or does not answer."""

    def __init__(self, address: Address | None, line: str):
        super().__init__(line)
        self.address = address
        self.line = line


class _SetAside(Exception):
    """The thread has ended."""


class DeviceThread:
    """The work of a thread: one device at a time, chosen by the tracker.

    A session is kept while candidates are left, and released immediately afterwards.

    Args:
        timeout_s: limit for loading and timing one candidate.
        session_timeout_s: time after which the server ends a session.
        wait_s: time to wait for a lost device.
    """

    def __init__(self, batch: Batch, timeout_s: float, session_timeout_s: float, wait_s: float):
        self._batch = batch
        self._wait_s = wait_s
        self._timeout_s = timeout_s
        self._session_timeout_s = session_timeout_s
        self._session: MeasuringWorker | None = None
        self._address: Address | None = None
        self._opened = self._until = 0.0
        self._refusals = 0

    def work(self) -> None:
        """Time candidates until the batch is over or the device is lost for good."""
        line, is_lost = OVER, False
        try:
            while (outcome := self._next()) is not None:
                if isinstance(outcome, Kernel):
                    self._time(outcome)
                else:
                    self._batch.results.put(outcome)
        except _SetAside as reason:
            line, is_lost = str(reason), str(reason) != OVER
        except BaseException as error:  # noqa: BLE001  # raised again where results are read
            self._batch.results.put(error)
        finally:
            self._end_session()
            self._batch.leave(line, is_lost)

    def _next(self) -> Outcome | None:
        try:
            return self._batch.built.get_nowait()
        except queue.Empty:
            self._end_session()
            return self._batch.built.get()

    def _time(self, kernel: Kernel) -> None:
        batch = self._batch
        try:
            answer, run_s, conditions = self._in_time_slot(kernel)
        except _Gone as gone:
            batch.built.put(kernel)
            self._recover(gone.address, gone.line)
            return
        except SlotCancelled:
            batch.built.put(kernel)
            raise _SetAside(OVER) from None
        except _SetAside:
            batch.built.put(kernel)
            raise

        def result(status: Status, samples: Samples = (), error: str | None = None) -> None:
            kernel.library.unlink(missing_ok=True)
            batch.results.put(candidate_result(kernel, status, samples, error, run_s, conditions))

        if isinstance(answer, Timed):
            conditions = {**conditions, **answer.conditions}
            result("ok", answer.samples_s)
        elif batch.over.is_set():
            return
        elif isinstance(answer, Failed):
            result("run_error", error=answer.line)
        elif SESSION_TIMEOUT in answer.line and batch.answers(self._address):
            result("timeout", error=f"did not end within {min(self._timeout_s, self._session_timeout_s):g} s")
        else:
            self._lose(kernel, "it stopped answering" if SESSION_TIMEOUT in answer.line else answer.line, result)

    def _in_time_slot(self, kernel: Kernel) -> tuple[Timed | Failed | Lost, float, dict[str, str]]:
        """Time a candidate exclusively; the session is opened first, because it determines the device.

        Returns:
            The outcome, its duration in seconds, and the conditions of the device.
        """
        batch = self._batch
        while True:
            if self._session is None or time.monotonic() > self._until:
                self._open_session()
            address = self._address
            assert address is not None
            try:
                with batch.time_slots.slot(address, address not in batch.rested, batch.over.is_set) as conditions:
                    batch.rested.add(address)
                    if self._has_waited():
                        self._open_session()
                    if self._address != address:
                        continue
                    began = time.monotonic()
                    answer = self._answer(kernel)
                    run_s = time.monotonic() - began
            except Unreachable as error:
                raise _Gone(address, error.problem) from error
            return answer, run_s, conditions

    def _has_waited(self) -> bool:
        """Whether waiting for others took so long that the server is about to end the session."""
        return time.monotonic() > max(self._until, self._opened + FRESH_S)

    def _answer(self, kernel: Kernel) -> Timed | Failed | Lost:
        assert self._session is not None
        try:
            answer = self._session.ask(TimeThere(kernel.library, kernel.arguments), self._timeout_s)
        except WorkerTimeout:
            answer = Lost(SESSION_TIMEOUT)
        except WorkerEnded as ended:
            answer = Lost(ended.line("the session's process"))
        if not isinstance(answer, Timed):
            # Driver errors outlive the kernel that caused them.
            self._end_session()
        if isinstance(answer, Lost):
            # A hanging kernel runs until then: no other kernel may be timed beside it.
            self._batch.over.wait(self._batch.time_slots.freed_s)
        return answer

    def _lose(self, kernel: Kernel, why: str, result: Callable[..., None]) -> None:
        batch, address = self._batch, self._address
        assert address is not None
        with batch.lock:
            batch.lost.add(address)
            tried = batch.tried[kernel.number] = batch.tried.get(kernel.number, 0) + 1
        line = f"device {address} was lost ({why})"
        if tried < ATTEMPTS:
            batch.results.put(Warn(f"{line}; its candidate is tried once more"))
            batch.built.put(kernel)
        elif batch.has_servers():
            result("run_error", error=f"a device was lost each of the {tried} times it ran ({why})")
        else:
            result("device_lost", error=line)
        self._recover(address, line)

    def _recover(self, address: Address | None, line: str) -> None:
        """Wait for the device or a replacement.

        Raises:
            _SetAside: none appears in time, or the batch is over.
        """
        batch = self._batch
        until, pause = time.monotonic() + self._wait_s, FIRST_PAUSE_S
        while self._refusals < REFUSALS:
            if batch.over.wait(pause):
                raise _SetAside(OVER)
            if batch.is_back(address):
                return
            if time.monotonic() > until:
                break
            pause = min(2 * pause, LONGEST_PAUSE_S)
        raise _SetAside(line)

    def _open_session(self) -> None:
        batch = self._batch
        self._end_session()
        try:
            offer = batch.tracker.request(BUSY_WAIT_S, self._nobody_is_there())
        except DeviceError as error:
            raise _Gone(None, str(error).splitlines()[0]) from error
        if batch.over.is_set():
            raise _SetAside(OVER)
        if offer is None and batch.has_servers():
            raise _SetAside(f"no server with key '{batch.tracker.key}' came free in {BUSY_WAIT_S:g} s")
        if offer is None:
            raise _Gone(None, f"no server with key '{batch.tracker.key}' is left")
        session = batch.sessions.fork()
        self._session, self._address = session, offer.address
        with batch.lock:
            if batch.over.is_set():
                raise _SetAside(OVER)
            batch.working.add(session)
        self._opened = time.monotonic()
        self._until = self._opened + self._session_timeout_s - self._timeout_s
        request = Open(offer.address.host, offer.address.port, offer.match_key, self._session_timeout_s)
        try:
            answer = session.ask(request, CONNECT_S)
            line = answer.line if isinstance(answer, Failed) else None
        except WorkerTimeout:
            answer, line = None, f"no session in {CONNECT_S:g} s"
        except WorkerEnded as ended:
            answer, line = None, ended.line("the session's process")
        if isinstance(answer, Opened):
            self._refusals = 0
            return
        self._refusals += 1
        self._end_session()
        with batch.lock:
            batch.lost.add(offer.address)
        raise _Gone(offer.address, f"device {offer.address} does not open a session ({line})")

    def _nobody_is_there(self) -> Callable[[], bool]:
        """Return a check for the wait in the tracker's queue: whether the batch is over or no server is left."""
        checked = time.monotonic()

        def check() -> bool:
            nonlocal checked
            if self._batch.over.is_set():
                return True
            if time.monotonic() - checked < LISTED_S:
                return False
            checked = time.monotonic()
            return not self._batch.tracker.servers()

        return check

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with self._batch.lock:
                self._batch.working.discard(session)
            session.close()
