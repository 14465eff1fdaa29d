"""Timing candidates on devices behind a TVM RPC tracker."""

import queue
import sys
import threading
from collections.abc import Callable, Generator, Sequence

from tvmake.config.tuning import TrialMeasurement
from tvmake.device.tracker import Address, Tracker
from tvmake.device.turns import Sessions, Turns
from tvmake.quick_tvm import tvm
from tvmake.tune.measuring.builders import Builders
from tvmake.tune.measuring.interface import Candidate, Measured
from tvmake.tune.measuring.kernel import Loop, device_kind
from tvmake.tune.measuring.scratch import Scratch
from tvmake.tune.measuring.session_worker import SessionOptions
from tvmake.tune.measuring.slot import Batch, NoneLeft, Slot, Warn
from tvmake.tune.measuring.workers import WorkerSource


def print_warning(line: str) -> None:
    """Where warnings go unless the caller says otherwise."""
    print(f"warning: {line}", file=sys.stderr)


class RPCMeasurer:
    """Builds candidates here and times them on remote devices; a :class:`tvmake.tune.measuring.interface.Measurer`.

    As many candidates are timed at once as there are servers. A candidate whose device is lost is tried once more; a
    lost device is waited for, then set aside until it answers again.

    Args:
        target: what candidates are compiled for.
        options: how they are timed.
        builders: candidates built at once, here.
        tracker: where the servers are, and the key that those of equal devices share.
        session_timeout_s: after which a server ends a session, and with it a kernel that hangs.
        servers: candidates timed at once; as many as the tracker lists when None, and never more.
        wait_s: how long to wait for a server of the key before there is an error, and for a lost one to come back.
        threads: of CPU kernels; as many as a server has when None.
        driver: the compiler driver that links for the devices.
        warn: told in one line of devices that are lost, and of those set aside.
        turns: how the devices are shared with other jobs; by their sessions when None.
        aside: told of those set aside, too.
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
        turns: Turns | None = None,
        aside: Callable[[str], None] = lambda _: None,
    ):
        self._options = options
        self._tracker = tracker
        self._session_timeout_s = session_timeout_s
        self._servers = servers
        self._wait_s = wait_s
        self._warn = warn
        self._aside = aside
        self._turns = turns or Sessions()
        self._lost: set[Address] = set()
        self._scratch = Scratch()
        session = SessionOptions(device_kind(target), Loop.of(options), threads)
        self._sessions = WorkerSource("session", session, self._scratch.path, {"TVM_USE_RUNTIME_LIB": "1"})
        self._builders = Builders(target, driver, builders, options.build_timeout_s, self._scratch.path)

    def measure(self, candidates: Sequence[Candidate]) -> Generator[Measured, None, None]:
        """See :class:`tvmake.tune.measuring.interface.Measurer`."""
        if not candidates:
            return
        there = self._tracker.await_servers(self._wait_s, self._lost)
        self._lost -= set(there)
        count = min(len(there), len(candidates), self._servers or len(there))
        left = {candidate.number for candidate in candidates}
        with self._builders.building(candidates) as building:
            batch = Batch(self._tracker, self._turns, self._sessions, building.done, count, self._lost)
            threads = [
                threading.Thread(target=self._slot(batch).work, name=f"device-{number}", daemon=True)
                for number in range(count)
            ]
            for thread in threads:
                thread.start()
            try:
                while left:
                    said = batch.results.get()
                    if isinstance(said, Measured):
                        left.discard(said.number)
                        yield said
                    elif isinstance(said, Warn):
                        self._tell(said)
                    elif isinstance(said, NoneLeft):
                        for number in sorted(left):
                            yield Measured(number, "device_lost", error=said.line)
                        return
                    else:
                        raise said
            finally:
                batch.stop()
                for thread in threads:
                    thread.join()
                self._tell_rest(batch)

    def close(self) -> None:
        """See :class:`tvmake.tune.measuring.interface.Measurer`."""
        self._builders.close()
        self._sessions.close()
        self._scratch.close()

    def _slot(self, batch: Batch) -> Slot:
        return Slot(batch, self._options.timeout_s, self._session_timeout_s, self._wait_s)

    def _tell_rest(self, batch: Batch) -> None:
        while True:
            try:
                said = batch.results.get_nowait()
            except queue.Empty:
                return
            if isinstance(said, Warn):
                self._tell(said)

    def _tell(self, said: Warn) -> None:
        self._warn(said.line)
        if said.is_aside:
            self._aside(said.line)
