"""A process with loaded modules, from which measuring workers are forked.

:mod:`tvmake.process.forkserver.launch` starts it with a socket as standard input. It processes one request at a time from
the socket: fork a worker that serves on the attached socket, or kill a worker and report its exit code. It starts no
threads and runs nothing that could crash, so that every fork is complete and only its own death ends the workers with it.
When the process that started it has ended, it ends with all workers and removes the scratch directory.
"""

import importlib
import os
import pickle
import select
import shutil
import signal
import socket
import tempfile
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from tvmake.process.fork import disable_core_dumps, fork, signal_group
from tvmake.process.forkserver.preload import check_single_thread, freeze_memory
from tvmake.process.supervised import is_alive
from tvmake.tune.measure.pause_others import PauseListener
from tvmake.tune.measure.workers.protocol import CLOSE, FORK, MESSAGE_BYTES, NUMBER, Failed, Setup

ROLES = {
    "build": "tvmake.tune.measure.workers.build_worker:BuildWorker",
    "run": "tvmake.tune.measure.workers.run_worker:RunWorker",
    "session": "tvmake.tune.measure.workers.session_worker:SessionWorker",
}
"""Roles of workers."""

CHECK_S = 5.0
"""Interval of checks that the job is alive. A closed socket reports its end at once, unless a fork also holds the socket."""

WORKER_OOM_SCORE = 500
"""Makes the kernel kill a worker, not the tuning job, when memory is exhausted; from -1000 (never) to 1000 (first)."""


class Role(Protocol):
    """The work of a worker. Created once in the fork server; every fork has a copy."""

    def answer(self, request: Any) -> Any:
        """Process one request."""
        ...

    def explain(self, error: Exception) -> str:
        """Describe an exception of ``answer`` in one line."""
        ...


class ForkServer:
    """The main loop of the process.

    Args:
        control: socket of the requests; each is answered by a number.
        job: the process that it ends with.
        scratch: a directory to remove when the job has ended.
        pauses: listener for pause requests of other jobs, if they are possible.
    """

    def __init__(self, control: socket.socket, job: int, role: Role, scratch: Path, pauses: PauseListener | None):
        self.control = control
        self.job = job
        self.role = role
        self.scratch = scratch
        self.pauses = pauses
        self.workers: set[int] = set()

    def serve(self) -> None:
        """Fork and end workers until the last request, or until the job has ended."""
        try:
            goes_on = self._serve()
        except ConnectionError:
            goes_on = is_alive(self.job)
        finally:
            if self.pauses is not None:
                self.pauses.close()
            for worker in list(self.workers):
                self._end(worker)
        if not goes_on:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def _serve(self) -> bool:
        """Return whether the job continues, and may use the scratch directory with another fork server."""
        while is_alive(self.job):
            if not self._has_request():
                continue
            message, files, _, _ = socket.recv_fds(self.control, MESSAGE_BYTES, 2)
            if message in (b"", CLOSE):
                return message == CLOSE
            result = self._fork(files) if message[:1] == FORK else self._end(NUMBER.unpack(message[1:])[0])
            self.control.sendall(NUMBER.pack(result))
        return False

    def _has_request(self) -> bool:
        """Wait for a request, and meanwhile pause the job at the request of others; return whether there is a request."""
        if self.pauses is None:
            return bool(select.select([self.control], [], [], CHECK_S)[0])
        timeout_s = self.pauses.timeout_s()
        files = [self.control.fileno(), *self.pauses.files()]
        ready = select.select(files, [], [], CHECK_S if timeout_s is None else timeout_s)[0]
        self.pauses.handle(self.workers)
        return self.control.fileno() in ready

    def _fork(self, files: list[int]) -> int:
        worker = fork(lambda: self._work(files), leads="group")
        for file in files:
            os.close(file)
        self.workers.add(worker)
        return worker

    def _end(self, worker: int) -> int:
        """Kill a worker unless it has ended; return its exit code, negative for a signal."""
        signal_group(worker, signal.SIGKILL)
        _, status = os.waitpid(worker, 0)
        self.workers.discard(worker)
        return os.waitstatus_to_exitcode(status)

    def _work(self, files: list[int]) -> None:
        """Answer requests in the fork until the last one."""
        self.control.close()
        if self.pauses is not None:
            self.pauses.close_in_fork()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        disable_core_dumps()  # crashes are expected here
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(str(WORKER_OOM_SCORE))
        for number in (1, 2):
            os.dup2(files[1], number)
        connection = Connection(files[0])
        while True:
            try:
                request = connection.recv()
            except EOFError:
                return
            connection.send(self._answer(request))

    def _answer(self, request: Any) -> Any:
        try:
            return self.role.answer(request)
        except Exception as error:  # noqa: BLE001  # a kernel can fail in any way; the worker's caller says what it means
            traceback.print_exc()
            return Failed(self.role.explain(error))


def main(arguments: list[str]) -> int:
    """Load the modules of the role, report success or failure, then serve.

    Args:
        arguments: the role, for process listings, and the process that this one ends with. Standard input is the socket.
    """
    job = int(arguments[1])
    control = socket.socket(fileno=os.dup(0))
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes; the job decides
    setup: Setup = pickle.loads(control.recv(MESSAGE_BYTES))
    # Temporary files of a crashed or killed worker are removed with the scratch directory.
    os.environ["TMPDIR"] = tempfile.tempdir = str(setup.scratch)
    module, _, kind = ROLES[setup.role].partition(":")
    try:
        role = getattr(importlib.import_module(module), kind)(setup.options)
        check_single_thread()
    except Exception as error:  # noqa: BLE001  # whatever it is, the job has to know
        traceback.print_exc()
        control.sendall(pickle.dumps(f"{type(error).__name__}: {error}"[-MESSAGE_BYTES // 2 :]))
        return 0
    freeze_memory()
    with suppress(ConnectionError):  # the job has ended; serving ends at once
        control.sendall(pickle.dumps(None))
    pauses = PauseListener(setup.pause_directory, setup.job) if setup.pause_directory is not None else None
    ForkServer(control, job, role, setup.scratch, pauses).serve()
    return 0
