"""Time candidates on devices behind a TVM RPC tracker."""

import queue
import sys
import threading
from collections.abc import Callable, Generator, Sequence

import tvm

from tvmake.config.tuning import TrialMeasurement
from tvmake.device.address import Address
from tvmake.device.rpc.tracker import Tracker
from tvmake.device.time_slots import SessionSlots, TimeSlots
from tvmake.targets.backends import device_kind
from tvmake.tune.measure.builders import Builders
from tvmake.tune.measure.device_threads import Batch, DeviceThread, NoneLeft, Warn
from tvmake.tune.measure.interface import Candidate, Measured
from tvmake.tune.measure.kernel import Loop
from tvmake.tune.measure.scratch import Scratch
from tvmake.tune.measure.workers.processes import WorkerSource
from tvmake.tune.measure.workers.session_worker import SessionOptions


def print_warning(line: str) -> None:
    """Print a warning; the default if the caller passes no function."""
    print(f"warning: {line}", file=sys.stderr)


class RPCMeasurer:
    """Build candidates here and time them on remote devices; a :class:`tvmake.tune.measure.interface.Measurer`.

    One candidate is timed per server. A candidate whose device is lost is tried once more. A lost device is waited for, then
    set aside until it answers again.

    Args:
        session_timeout_s: time after which a server ends a session, and with it a kernel that hangs.
        servers: number of candidates timed at once; all servers of the tracker if None, and never more.
        wait_s: time to wait for a server of the key, or for a lost one to return.
        threads: threads of CPU kernels; the server's cores if None.
        warn: called with one line for each device that is lost or set aside.
        time_slots: sharing of the devices with other jobs; by their sessions if None.
        on_set_aside: called with one line for each device that is set aside.
    """

    def __init__(
        self,
        target: "tvm.target.Target",
        options: TrialMeasurement,
        builders: int,
        tracker: Tracker,
        session_timeout_s: float = 60.0,
        servers: int | None = None,
        wait_s: float = 30.0,
        threads: int | None = None,
        driver: str = "g++",
        warn: Callable[[str], None] = print_warning,
        time_slots: TimeSlots | None = None,
        on_set_aside: Callable[[str], None] = lambda _: None,
    ):
        self._options = options
        self._tracker = tracker
        self._session_timeout_s = session_timeout_s
        self._servers = servers
        self._wait_s = wait_s
        self._warn = warn
        self._on_set_aside = on_set_aside
        self._time_slots = time_slots or SessionSlots()
        self._lost: set[Address] = set()
        self._scratch = Scratch()
        session = SessionOptions(device_kind(target), Loop.of(options), threads)
        self._sessions = WorkerSource("session", session, self._scratch.path, {"TVM_USE_RUNTIME_LIB": "1"})
        self._builders = Builders(target, driver, builders, options.build_timeout_s, self._scratch.path)

    def measure(self, candidates: Sequence[Candidate]) -> Generator[Measured, None, None]:
        if not candidates:
            return
        there = self._tracker.await_servers(self._wait_s, self._lost)
        self._lost -= set(there)
        count = min(len(there), len(candidates), self._servers or len(there))
        left = {candidate.number for candidate in candidates}
        with self._builders.building(candidates) as building:
            batch = Batch(self._tracker, self._time_slots, self._sessions, building.done, count, self._lost)
            threads = [
                threading.Thread(target=self._thread(batch).work, name=f"device-{number}", daemon=True)
                for number in range(count)
            ]
            for thread in threads:
                thread.start()
            try:
                while left:
                    message = batch.results.get()
                    if isinstance(message, Measured):
                        left.discard(message.number)
                        yield message
                    elif isinstance(message, Warn):
                        self._report(message)
                    elif isinstance(message, NoneLeft):
                        for number in sorted(left):
                            yield Measured(number, "device_lost", error=message.line)
                        return
                    else:
                        raise message
            finally:
                batch.stop()
                for thread in threads:
                    thread.join()
                self._report_rest(batch)

    def close(self) -> None:
        self._builders.close()
        self._sessions.close()
        self._scratch.close()

    def _thread(self, batch: Batch) -> DeviceThread:
        return DeviceThread(batch, self._options.timeout_s, self._session_timeout_s, self._wait_s)

    def _report_rest(self, batch: Batch) -> None:
        while True:
            try:
                message = batch.results.get_nowait()
            except queue.Empty:
                return
            if isinstance(message, Warn):
                self._report(message)

    def _report(self, message: Warn) -> None:
        self._warn(message.line)
        if message.is_set_aside:
            self._on_set_aside(message.line)
