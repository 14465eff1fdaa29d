"""Measuring workers: processes that run one risky operation each and can be killed at any time.

They are forked from a fork server (:mod:`tvmake.tune.measure.workers.forkserver`), because the tuning process has threads
and must not fork, and because a new process would take a second or more to import TVM. Under ``tvmake make`` this server
is itself a fork (:mod:`tvmake.process.forkserver.launch`).
"""

import os
import pickle
import signal
import socket
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from tvmake.codegen.compiler_errors import telling_line
from tvmake.errors import MachineError
from tvmake.process.fork import signal_group
from tvmake.process.forkserver.launch import launch
from tvmake.process.worker import Worker
from tvmake.tune.measure.machine_faults import check_machine
from tvmake.tune.measure.workers.protocol import CLOSE, END, FORK, MESSAGE_BYTES, NUMBER, Setup

START_TIMEOUT_S = 300.0
"""Time limit for importing TVM on a slow machine with a cold disk; it usually takes a second."""

RESULT_TIMEOUT_S = 120.0
"""Time limit for a fork server to fork or end a worker on an overloaded machine; then it counts as lost."""

END_S = 5.0
"""Time limit for a fork server to end its workers and itself."""

MAX_TRIES = 3
"""Number of fork servers to start before giving up."""

ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
"""Keeps NumPy's library from starting threads, which forks would lack."""

ENTRY = "tvmake.tune.measure.workers.forkserver:main"

KINDS = {"build": "tuner", "run": "runtime", "session": "runtime"}
"""The server of a run whose modules a role needs; timing needs only TVM's runtime."""

LATE_VARIABLES = frozenset({"TVM_USE_RUNTIME_LIB", "TVM_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
"""See :func:`tvmake.process.forkserver.launch.launch`."""


class MeasuringWorker(Worker):
    """A forked process that answers requests one by one, and can be paused."""

    def __init__(self, server: "_ForkServer", number: int, connection: Connection, output: IO[bytes]):
        super().__init__(connection, output, lambda _: server.end(number), telling_line)
        self._number = number

    def pause(self) -> None:
        """Pause the process, from any thread."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process, from any thread."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        with self._lock:
            if not self._has_ended:  # until then the process id is not reused
                signal_group(self._number, number)


class WorkerSource:
    """Fork workers of one role from a fork server, which is started at once and restarted when it is lost.

    Args:
        role: one of ``forkserver.ROLES``.
        scratch: a directory that the fork server removes if this process is killed.
        environment: additional variables for the fork server and its workers.
        pause_directory: directory of the sockets for pause requests of other jobs.
    """

    def __init__(
        self,
        role: str,
        options: Any,
        scratch: Path,
        environment: Mapping[str, str],
        pause_directory: Path | None = None,
    ):
        self._setup = Setup(role, options, scratch, os.getpid(), pause_directory)
        self._environment = {**ENVIRONMENT, **environment}
        self._lock = threading.Lock()
        self._is_closed = False
        self._server = _ForkServer(self._setup, self._environment)

    def fork(self) -> MeasuringWorker:
        """Fork a worker.

        Raises:
            MachineError: the fork server does not start.
        """
        with ExitStack() as on_failure:
            ours, theirs = (on_failure.enter_context(end) for end in socket.socketpair())
            output = on_failure.enter_context(tempfile.TemporaryFile())
            for _ in range(MAX_TRIES):
                server = self._current()
                try:
                    number = server.fork(theirs.fileno(), output.fileno())
                except OSError:
                    self._replace(server)
                    continue
                on_failure.pop_all()
                theirs.close()
                return MeasuringWorker(server, number, Connection(ours.detach()), output)
        raise MachineError(
            "tuning", f"the process that {self._setup.role} workers are forked from keeps ending", "out of memory?"
        )

    def close(self) -> None:
        """End the fork server and every worker."""
        with self._lock:
            self._is_closed = True
            self._server.close()

    def _current(self) -> "_ForkServer":
        with self._lock:
            return self._server

    def _replace(self, server: "_ForkServer") -> None:
        with self._lock:
            if self._is_closed:
                raise RuntimeError("a worker was requested after its source was closed")
            if self._server is server:
                server.close()
                self._server = _ForkServer(self._setup, self._environment)


class _ForkServer:
    """The job's side of a :mod:`tvmake.tune.measure.workers.forkserver`."""

    def __init__(self, setup: Setup, environment: Mapping[str, str]):
        self._role = setup.role
        self._lock = threading.Lock()
        self._is_ready = False
        # Preserves message boundaries, so that messages are never read in part.
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            arguments = [setup.role, str(os.getpid())]
            self._process = launch(KINDS[setup.role], ENTRY, arguments, theirs.fileno(), environment, LATE_VARIABLES)
        with suppress(OSError):  # if it has already ended, the next fork reports it
            self._control.sendall(pickle.dumps(setup))

    def fork(self, *files: int) -> int:
        """Fork a worker with these files; return its number.

        Raises:
            OSError: the fork server has ended.
            MachineError: the machine lacks resources for it.
        """
        with self._lock:
            self._await_ready()
            socket.send_fds(self._control, [FORK], list(files))
            return self._result()

    def end(self, worker: int) -> int | None:
        """Kill a worker unless it has ended; return its exit code, or None if the fork server has ended."""
        with self._lock:
            try:
                self._control.sendall(END + NUMBER.pack(worker))
                return self._result()
            except OSError:
                return None

    def close(self) -> None:
        """End the fork server."""
        with suppress(OSError):
            self._control.setblocking(False)
            self._control.send(CLOSE)
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for the start
        with self._lock:
            self._control.close()
            if not self._is_ready:
                self._process.kill()  # it has no workers yet and need not finish loading TVM
            if not self._process.wait(END_S):
                self._process.kill()
                self._process.wait()

    def _await_ready(self) -> None:
        if self._is_ready:
            return
        self._control.settimeout(START_TIMEOUT_S)
        message = self._control.recv(MESSAGE_BYTES)
        if not message:
            raise ConnectionResetError
        self._control.settimeout(RESULT_TIMEOUT_S)
        if problem := pickle.loads(message):
            check_machine(problem)
            raise MachineError("tuning", f"{self._role} workers cannot be prepared: {telling_line(problem)}")
        self._is_ready = True

    def _result(self) -> int:
        try:
            message = self._control.recv(NUMBER.size)
        except TimeoutError:
            self._process.kill()  # a late answer would be read as the answer of the next request
            raise
        if not message:
            raise ConnectionResetError
        return int(NUMBER.unpack(message)[0])
