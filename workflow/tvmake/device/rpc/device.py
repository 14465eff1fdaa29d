"""Devices behind a TVM RPC tracker."""

import os
import socket
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.package import REQUIRED
from tvmake.config.device import RpcDeviceConfig
from tvmake.device import store
from tvmake.device.address import Address
from tvmake.device.failure import explain_failure, overran
from tvmake.device.interface import Deployment, RunRequest, RunResult
from tvmake.device.rpc.messages import Describe, Failed, Lost, Open, Opened, Problem, Request, RunPackage
from tvmake.device.rpc.session import BUSY_WAIT_S, CONNECT_S, FREED_S, REFUSALS, SESSION_TIMEOUT, take
from tvmake.device.rpc.tracker import Offer, Tracker
from tvmake.device.time_slots import TimeSlots
from tvmake.errors import DeviceError, InputError, MachineError
from tvmake.process.parent_death import bound_environment
from tvmake.process.python import python_command
from tvmake.process.supervised import ChildProcess
from tvmake.process.worker import Worker, WorkerEnded, WorkerTimeout

READY_S = 120.0
"""How long a process may take to load TVM's runtime on a very busy machine; normally a second."""

EXIT_S = 0.5
"""How long a worker may take to end by itself after its answer."""


class SessionLost(Exception):
    """A session ended before the request was completed."""

    def __init__(self, address: Address, line: str):
        super().__init__(address, line)
        self.address = address
        self.line = line


class SessionTimeout(Exception):
    """A request exceeded its time; its process was killed, and the server ends the session."""


class RequestFailed(Exception):
    """The request failed with a one-line reason; the device still works."""


class RPCSessions:
    """Serves requests on any server that the tracker offers, with one session and one process each.

    Args:
        slots: how the devices are shared with other processes; None: by their sessions.

    Raises:
        DeviceError: no tracker is known.
    """

    def __init__(self, name: str, config: RpcDeviceConfig, slots: TimeSlots | None = None):
        self.where = f"device '{name}'"
        self.config = config
        self.tracker = Tracker.of(name, config)
        self.slots = slots

    def fulfil(self, request: Request, timeout_s: float) -> Any:
        """Wait for a server, and complete a request on it.

        Args:
            timeout_s: the request's time limit after the session is open.

        Raises:
            DeviceError: no server is available, or it does not support the request.
            InputError: the request's files are damaged or do not match.
            SessionLost, SessionTimeout, RequestFailed: the request was not completed.
        """
        for _ in range(REFUSALS):
            with _start_worker() as worker:
                self._await_ready(worker)
                offer = take(self.tracker, self.config.wait_s)
                # This includes the wait for a time slot; the worker process ends hanging calls after their own time limit.
                refusal = self._open(worker, offer, timeout_s + (BUSY_WAIT_S if self.slots else 0))
                if refusal is None and self.slots is not None:
                    return self._in_slot(self.slots, worker, offer, request, timeout_s)
                if refusal is None:
                    return self._result(worker, offer, request, timeout_s)
        remedy = "restart the server; it must run the same version of TVM as this machine"
        raise DeviceError(self.where, f"its server {offer.address} does not open a session ({refusal})", remedy)

    def _in_slot(self, slots: TimeSlots, worker: Worker, offer: Offer, request: Request, timeout_s: float) -> Any:
        with slots.slot(offer.address, False, lambda: False):
            try:
                return self._result(worker, offer, request, timeout_s)
            except SessionTimeout:
                worker.kill()
                time.sleep(FREED_S)
                raise

    def _await_ready(self, worker: Worker) -> None:
        try:
            worker.receive(READY_S)
        except WorkerEnded as ended:
            raise MachineError(
                self.where, f"the process that reaches it {ended.description}", "out of memory?"
            ) from None
        except WorkerTimeout:
            remedy = "the disk may be slow or the machine busy; run the command again"
            raise MachineError(self.where, f"TVM's runtime did not load within {READY_S:g} s", remedy) from None

    def _open(self, worker: Worker, offer: Offer, timeout_s: float) -> str | None:
        """Open a session; returns the reason if it fails."""
        try:
            answer = worker.ask(Open(offer.address.host, offer.address.port, offer.match_key, timeout_s), CONNECT_S)
        except WorkerTimeout:
            return f"no answer in {CONNECT_S:g} s"
        except WorkerEnded as ended:
            return f"the process that reaches it {ended.description}"
        return None if isinstance(answer, Opened) else answer.line

    def _result(self, worker: Worker, offer: Offer, request: Request, timeout_s: float) -> Any:
        try:
            answer = worker.ask(request, timeout_s)
        except WorkerTimeout:
            raise SessionTimeout from None
        except WorkerEnded as ended:
            raise MachineError(self.where, f"the process that used it {ended.description}", "out of memory?") from None
        match answer:
            case Problem():
                raise (InputError if answer.kind == "input" else DeviceError)(
                    answer.where, answer.problem, answer.remedy
                )
            case Lost(line=line) if line == SESSION_TIMEOUT:
                raise SessionTimeout
            case Lost(line=line):
                raise SessionLost(offer.address, line)
            case Failed(line=line):
                raise RequestFailed(line)
        return answer


class RPCDevice:
    """Runs packages on the servers of a tracker. The server is known only when a run starts, so packages are stored here, and
    sent then unless the server has them."""

    def __init__(self, name: str, config: RpcDeviceConfig):
        self.name = name
        self.config = config
        self.where = f"device '{name}'"

    def push(self, package: Path) -> Deployment:
        directory = store.put(package, store.store_root())
        size = sum((directory / name).stat().st_size for name in REQUIRED)
        return Deployment(device=self.name, package_sha256=directory.name, location=str(directory), size_bytes=size)

    def fingerprint(self, kind: str = "cpu") -> Fingerprint:
        fingerprint = self._fulfil(
            Describe(self.config, self.where), self.config.session_timeout_s, "it was being identified"
        )
        if kind != "cpu" and kind not in fingerprint.details:
            remedy = "start the server with a runtime for it (`rpc_server --load-library`), or give the target another device"
            raise DeviceError(self.where, f"its server has no {kind} device", remedy)
        return fingerprint.model_copy(update={"kind": kind})

    def execute(self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None) -> RunResult:
        package_run = RunPackage(self.config, self.where, Path(deployment.location), request, inputs, outputs)
        return self._fulfil(package_run, self.config.timeout_s, "running the package")

    def exclusive(self) -> AbstractContextManager[None]:
        """See :class:`tvmake.device.interface.Device`: the session of a run is the lease."""
        return nullcontext()

    def _fulfil(self, request: Request, timeout_s: float, doing: str) -> Any:
        try:
            return RPCSessions(self.name, self.config).fulfil(request, timeout_s)
        except SessionLost as lost:
            problem = f"its server {lost.address} was lost while {doing} ({lost.line})"
            remedy = "see the server's output; restart it if it ended, and run the same command again"
            raise DeviceError(self.where, problem, remedy) from None
        except SessionTimeout:
            key = "timeout_s" if isinstance(request, RunPackage) else "session_timeout_s"
            raise overran(self.where, self.name, timeout_s, key) from None
        except RequestFailed as failed:
            failure = explain_failure(str(failed), request.directory if isinstance(request, RunPackage) else None)
            raise DeviceError(self.where, f"{doing} failed: {failure.problem}", failure.remedy) from None


def _start_worker() -> Worker:
    """A :mod:`tvmake.device.rpc.worker`."""
    ours, theirs = socket.socketpair()
    output = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the worker
    with theirs:
        process = ChildProcess(
            python_command("-m", "tvmake.process.tvm_import", "tvmake.device.rpc.worker", str(theirs.fileno())),
            bound_environment({**os.environ, "TVM_USE_RUNTIME_LIB": "1", "OPENBLAS_NUM_THREADS": "1"}),
            stdout=output,
            stderr=output,
            pass_fds=[theirs.fileno()],
        )
    return Worker(Connection(ours.detach()), output, process.end, grace_s=EXIT_S)
