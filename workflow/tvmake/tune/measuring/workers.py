"""Workers: processes that do one risky thing each and can be killed at any time.

They are forked from templates (:mod:`tvmake.tune.measuring.template`), because the tuning process has threads and must
not fork, and because a fresh process would spend a second and more on importing TVM. Under ``tvmake make`` templates are
forks themselves (:mod:`tvmake.tune.measuring.launch`).
"""

import os
import pickle
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from tvmake.errors import MachineError
from tvmake.tune.measuring.failure import telling_line
from tvmake.tune.measuring.launch import launch
from tvmake.tune.measuring.protocol import END, FORK, MESSAGE, NUMBER, Setup, signal_group

START_TIMEOUT_S = 300.0
"""For importing TVM on a slow machine with a cold disk; elsewhere it takes a second."""

RESULT_TIMEOUT_S = 120.0
"""For a template to fork or to end a worker, on a machine that hardly moves; past that it counts as lost."""

TRIES = 3
"""Templates to start, one after the other, before giving up."""

GLANCE_S = 1.0
"""How often to look at a clock that may stand still."""

LAST_WORDS = 4096
"""Bytes of a crashed worker's output to look for a telling line in."""

ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}
"""Keeps numpy's library from starting threads, which forks would lack."""


class Ended(Exception):
    """A worker ended before it answered.

    Args:
        code: its exit code, negative for a signal; None when its template ended, so that it was not to blame.
        words: what it said last.
    """

    def __init__(self, code: int | None, words: str):
        super().__init__(code, words)
        self.code = code
        self.words = words

    def line(self, what: str) -> str:
        """One telling line, of which ``what`` is the subject."""
        if self.code is None:
            return f"{what} was ended with the process it was forked from"
        if self.code == -signal.SIGKILL:
            return f"{what} was ended by SIGKILL (out of memory?)"
        how = f"ended with code {self.code}" if self.code >= 0 else f"crashed with {signal.Signals(-self.code).name}"
        return f"{what} {how}: {self.words}" if self.words else f"{what} {how}"


class Late(Exception):
    """A worker took too long and was killed."""


class Worker:
    """A forked process that answers requests one by one."""

    def __init__(self, template: "_Template", number: int, connection: Connection, output: IO[bytes]):
        self._template = template
        self._number = number
        self._connection = connection
        self._output = output
        self._lock = threading.Lock()
        self._code: int | None = None
        self._ended = False

    def ask(self, request: Any, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> Any:
        """Send a request and wait for its answer.

        Args:
            timeout_s: how long it may take, by ``clock``.

        Raises:
            Ended: the worker ended first, by itself or killed.
            Late: there was no answer in time; the worker was killed.
        """
        left, last = timeout_s, clock()
        try:
            self._connection.send(request)
            while not self._connection.poll(min(left, GLANCE_S)):
                now = clock()
                # Time in which this process stood still does not count.
                left -= min(now - last, 2 * GLANCE_S)
                last = now
                if left <= 0:
                    self.kill()
                    raise Late
            return self._connection.recv()
        except (EOFError, OSError):
            raise Ended(self.kill(), self._last_words()) from None

    def pause(self) -> None:
        """Stop the process where it is, from any thread."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let the process go on, from any thread."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        with self._lock:
            if not self._ended:  # until its end is asked for, its number belongs to it, dead or alive
                signal_group(self._number, number)

    def kill(self) -> int | None:
        """End the process, from any thread; returns how it had ended before, or now (see :class:`Ended`)."""
        with self._lock:
            if not self._ended:
                self._code = self._template.end(self._number)
                self._ended = True
            return self._code

    def _last_words(self) -> str:
        size = os.fstat(self._output.fileno()).st_size
        said = os.pread(self._output.fileno(), LAST_WORDS, max(0, size - LAST_WORDS))
        return telling_line(said.decode(errors="replace"))

    def close(self) -> None:
        """End the process and forget it; for the thread that asks."""
        self.kill()
        self._connection.close()
        self._output.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WorkerSource:
    """Makes workers of one role, from a template that it starts at once and again whenever it was lost.

    Args:
        role: one of ``template.ROLES``.
        options: the role's own.
        scratch: a directory that ends with the template.
        environment: variables for the template and its workers, beside this process's own.
        beside: where the template hears that another job times, so that this one stands still.
    """

    def __init__(
        self, role: str, options: Any, scratch: Path, environment: Mapping[str, str], beside: Path | None = None
    ):
        self._setup = Setup(role, options, scratch, os.getpid(), beside)
        self._environment = {**ENVIRONMENT, **environment}
        self._lock = threading.Lock()
        self._is_closed = False
        self._template = _Template(self._setup, self._environment)

    def fork(self) -> Worker:
        """A new worker.

        Raises:
            MachineError: the template does not start.
        """
        with ExitStack() as unless_done:
            ours, theirs = (unless_done.enter_context(end) for end in socket.socketpair())
            output = unless_done.enter_context(tempfile.TemporaryFile())
            for _ in range(TRIES):
                template = self._current()
                try:
                    number = template.fork(theirs.fileno(), output.fileno())
                except OSError:
                    self._replace(template)
                    continue
                unless_done.pop_all()
                theirs.close()
                return Worker(template, number, Connection(ours.detach()), output)
        raise MachineError(
            "tuning", f"the process that {self._setup.role} workers are forked from keeps ending", "out of memory?"
        )

    def close(self) -> None:
        """End the template and every worker."""
        with self._lock:
            self._is_closed = True
            self._template.close()

    def _current(self) -> "_Template":
        with self._lock:
            return self._template

    def _replace(self, template: "_Template") -> None:
        with self._lock:
            if self._is_closed:
                raise RuntimeError("a worker was asked for after its source was closed")
            if self._template is template:
                template.close()
                self._template = _Template(self._setup, self._environment)


class _Template:
    """One template process."""

    def __init__(self, setup: Setup, environment: Mapping[str, str]):
        self._role = setup.role
        self._lock = threading.Lock()
        self._is_ready = False
        # Keeps the boundaries of messages, so that none is ever read in part.
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = launch(setup.role, theirs.fileno(), environment)
        with suppress(OSError):  # should it have ended already, whoever wants a worker will notice
            self._control.sendall(pickle.dumps(setup))

    def fork(self, *files: int) -> int:
        """Fork a worker with these files; returns its number.

        Raises:
            OSError: the template has ended.
            MachineError: it cannot do its work here.
        """
        with self._lock:
            self._await_ready()
            socket.send_fds(self._control, [FORK], list(files))
            return self._result()

    def end(self, worker: int) -> int | None:
        """Kill a worker unless it ended by itself; returns its exit code, or None if the template has ended."""
        with self._lock:
            try:
                self._control.sendall(END + NUMBER.pack(worker))
                return self._result()
            except OSError:
                return None

    def close(self) -> None:
        """End it."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # wakes whoever waits for it to start
        with self._lock:
            self._control.close()
            if not self._is_ready:
                self._process.kill()  # it has no workers yet, and need not finish loading TVM
            if not self._process.wait(5):
                self._process.kill()
                self._process.wait()

    def _await_ready(self) -> None:
        if self._is_ready:
            return
        self._control.settimeout(START_TIMEOUT_S)
        said = self._control.recv(MESSAGE)
        if not said:
            raise ConnectionResetError
        self._control.settimeout(RESULT_TIMEOUT_S)
        if problem := pickle.loads(said):
            raise MachineError("tuning", f"{self._role} workers cannot be prepared: {telling_line(problem)}")
        self._is_ready = True

    def _result(self) -> int:
        try:
            said = self._control.recv(NUMBER.size)
        except TimeoutError:
            self._process.kill()  # a late answer would be taken for the next one's
            raise
        if not said:
            raise ConnectionResetError
        return NUMBER.unpack(said)[0]
