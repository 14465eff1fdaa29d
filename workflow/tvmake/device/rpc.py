"""Devices behind a TVM RPC tracker."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tvmake.artifact.files import digest_file
from tvmake.artifact.package import REQUIRED
from tvmake.config.device import DeviceConfig
from tvmake.device import store
from tvmake.device.failure import explained
from tvmake.device.interface import Deployment, Fingerprint, RunRequest, RunResult
from tvmake.device.orders import Describe, Failed, Lost, Open, Opened, Order, Problem, RunPackage
from tvmake.device.session import BUSY_WAIT_S, CONNECT_S, FREED_S, REFUSALS, SESSION_TIMEOUT, take
from tvmake.device.tracker import Address, Offer, Tracker
from tvmake.device.turns import Turns
from tvmake.errors import DeviceError, InputError, MachineError
from tvmake.warm.client import PARENT

if TYPE_CHECKING:
    # Started as a process below, by name; this line lets the code fingerprint follow.
    from tvmake.device import rpc_worker  # noqa: F401

READY_S = 120.0
"""For a process to load TVM's runtime, on a machine that hardly moves; elsewhere it takes a second."""


class SessionLost(Exception):
    """A session ended before the order was fulfilled.

    Args:
        address: the server's.
        line: how.
    """

    def __init__(self, address: Address, line: str):
        super().__init__(address, line)
        self.address = address
        self.line = line


class SessionLate(Exception):
    """An order was not fulfilled in its time; its process was killed, and the server ends the session by itself."""


class OrderFailed(Exception):
    """What was run failed, as the text says in one line; the device is well."""


class Sessions:
    """Fulfils orders on whichever server the tracker offers, one session and one process each.

    Args:
        turns: how the devices are shared with others; by their sessions when None.

    Raises:
        DeviceError: no tracker is known.
    """

    def __init__(self, name: str, config: DeviceConfig, turns: Turns | None = None):
        self.where = f"device '{name}'"
        self.config = config
        self.tracker = Tracker.of(name, config)
        self.turns = turns

    def fulfil(self, order: Order, timeout_s: float) -> Any:
        """Wait for a server and have it fulfil an order.

        Args:
            timeout_s: for the order, once there is a session.

        Raises:
            DeviceError: no server can be had, or it cannot do this.
            InputError: the order's files are damaged or do not fit.
            SessionLost, SessionLate, OrderFailed: it could not be fulfilled.
        """
        for _ in range(REFUSALS):
            with _Process() as process:
                self._await_ready(process)
                offer = take(self.tracker, self.config.wait_s)
                # A turn may be waited for; this process ends what hangs after its own time.
                refusal = self._open(process, offer, timeout_s + (BUSY_WAIT_S if self.turns else 0))
                if refusal is None and self.turns is None:
                    return self._result(process, offer, order, timeout_s)
                if refusal is None:
                    return self._in_turn(self.turns, process, offer, order, timeout_s)
        raise DeviceError(
            self.where,
            f"its server {offer.address} does not open a session ({refusal})",
            "restart the server; it has to run the same version of TVM as this machine",
        )

    def _in_turn(self, turns: Turns, process: "_Process", offer: Offer, order: Order, timeout_s: float) -> Any:
        with turns.turn(offer.address, False, lambda: False):
            try:
                return self._result(process, offer, order, timeout_s)
            except SessionLate:
                process.kill()
                time.sleep(FREED_S)
                raise

    def _await_ready(self, process: "_Process") -> None:
        try:
            process.receive(READY_S)
        except EOFError:
            raise MachineError(
                self.where, f"the process that reaches it {process.ending()}", "out of memory?"
            ) from None
        except TimeoutError:
            raise MachineError(
                self.where,
                f"TVM's runtime does not load within {READY_S:g} s",
                "a slow disk, or a busy machine? run it again",
            ) from None

    def _open(self, process: "_Process", offer: Offer, timeout_s: float) -> str | None:
        """Open a session; returns why there is none."""
        process.send(Open(offer.address.host, offer.address.port, offer.match_key, timeout_s))
        try:
            answer = process.receive(CONNECT_S)
        except TimeoutError:
            return f"no answer in {CONNECT_S:g} s"
        except EOFError:
            return f"the process that asked {process.ending()}"
        return None if isinstance(answer, Opened) else answer.line

    def _result(self, process: "_Process", offer: Offer, order: Order, timeout_s: float) -> Any:
        try:
            process.send(order)
            answer = process.receive(timeout_s)
        except TimeoutError:
            raise SessionLate from None
        except EOFError:
            raise MachineError(self.where, f"the process that used it {process.ending()}", "out of memory?") from None
        match answer:
            case Problem():
                raise (InputError if answer.kind == "input" else DeviceError)(
                    answer.where, answer.problem, answer.remedy
                )
            case Lost(line=line) if line == SESSION_TIMEOUT:
                raise SessionLate
            case Lost(line=line):
                raise SessionLost(offer.address, line)
            case Failed(line=line):
                raise OrderFailed(line)
        return answer


class RPCDevice:
    """Runs packages on servers behind a tracker. Which server it will be is not known before a run, so packages stay here, and
    what a server has not kept is sent then."""

    def __init__(self, name: str, config: DeviceConfig):
        self.name = name
        self.config = config
        self.where = f"device '{name}'"

    def push(self, package: Path) -> Deployment:
        """See :class:`tvmake.device.interface.Device`."""
        place = store.put(package, store.store_root())
        size = sum((place / name).stat().st_size for name in REQUIRED)
        return Deployment(device=self.name, package_sha256=digest_file(package), location=str(place), size_bytes=size)

    def fingerprint(self, kind: str = "cpu") -> Fingerprint:
        """See :class:`tvmake.device.interface.Device`."""
        told = self._fulfil(Describe(self.config, self.where), self.config.session_timeout_s, "being asked who it is")
        if kind != "cpu" and kind not in told.details:
            raise DeviceError(
                self.where,
                f"its server has no {kind} device",
                "start the server with a runtime that has it (`rpc_server --load-library`), or give the target another device",
            )
        return told.model_copy(update={"kind": kind})

    def execute(self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None) -> RunResult:
        """See :class:`tvmake.device.interface.Device`."""
        order = RunPackage(self.config, self.where, Path(deployment.location), request, inputs, outputs)
        return self._fulfil(order, self.config.timeout_s, f"running {deployment.location}")

    def alone(self) -> AbstractContextManager[None]:
        """See :class:`tvmake.device.interface.Device`: the session that a run takes is the lease."""
        return nullcontext()

    def _fulfil(self, order: Order, timeout_s: float, doing: str) -> Any:
        try:
            return Sessions(self.name, self.config).fulfil(order, timeout_s)
        except SessionLost as lost:
            raise DeviceError(
                self.where,
                f"its server {lost.address} was lost while {doing} ({lost.line})",
                "see what the server wrote; restart it if it ended, and run the same command again",
            ) from None
        except SessionLate:
            key = "timeout_s" if isinstance(order, RunPackage) else "session_timeout_s"
            raise DeviceError(
                self.where,
                f"the run did not end within {timeout_s:g} s",
                f"raise devices.{self.name}.{key}, or measure less (benchmark.repeat, benchmark.min_duration_s)",
            ) from None
        except OrderFailed as failed:
            failure = explained(str(failed), order.directory if isinstance(order, RunPackage) else None)
            raise DeviceError(self.where, f"{doing} failed: {failure.problem}", failure.remedy) from None


class _Process:
    """A :mod:`tvmake.device.rpc_worker`, and all it started, for the length of a block."""

    def __init__(self) -> None:
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the block ends
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tvmake.device.rpc_worker", str(theirs.fileno())],
                env={**os.environ, "TVM_USE_RUNTIME_LIB": "1", "OPENBLAS_NUM_THREADS": "1", PARENT: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._connection = Connection(ours.detach())

    def send(self, message: Any) -> None:
        """Send a message; one that ended already is noticed when its answer is awaited."""
        try:
            self._connection.send(message)
        except BrokenPipeError:
            return

    def receive(self, timeout_s: float) -> Any:
        """The next message.

        Raises:
            TimeoutError: none came in time.
            EOFError: the process has ended.
        """
        if not self._connection.poll(timeout_s):
            raise TimeoutError
        try:
            return self._connection.recv()
        except ConnectionResetError:
            raise EOFError from None

    def ending(self) -> str:
        """How it ended, with what it said last."""
        code = self._process.wait()
        how = f"ended with {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        self._output.seek(0)
        said = [line for line in self._output.read().decode(errors="replace").splitlines() if line.strip()]
        return f"{how}: {said[-1].strip()}" if said else how

    def __enter__(self) -> "_Process":
        return self

    def kill(self) -> None:
        """End it at once."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def __exit__(self, *_: object) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0.5)  # it has answered and is about to end
        self.kill()
        self._connection.close()
        self._output.close()
