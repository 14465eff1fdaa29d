"""Workers: processes that answer requests one by one, and that are killed if an answer takes too long."""

import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import IO, Any, Self

from tvmake.process.supervised import exit_description, last_line

CLOCK_S = 1.0
"""The interval at which to read a clock that may stop."""

OUTPUT_BYTES = 4096
"""How much of an ended worker's output to read."""

EXIT_S = 30.0
"""How long to wait for the exit code of a worker that closed its connection."""


class WorkerEnded(Exception):
    """A worker ended without an answer.

    Args:
        code: its exit code, negative for a signal; None if the process that it was forked from ended, so that the worker is not
            the cause.
        last_words: the last line of its output.
    """

    def __init__(self, code: int | None, last_words: str):
        super().__init__(code, last_words)
        self.code = code
        self.last_words = last_words

    @property
    def description(self) -> str:
        """How it ended, with the last line of its output."""
        how = exit_description(self.code) if self.code is not None else "ended with the process it was forked from"
        return f"{how}: {self.last_words}" if self.last_words else how

    def line(self, subject: str) -> str:
        """One line about ``subject``, with the likely reason."""
        if self.code is None:
            return f"{subject} was ended with the process it was forked from"
        if self.code == -signal.SIGKILL:
            return f"{subject} was ended by SIGKILL (out of memory?)"
        how = exit_description(self.code) if self.code >= 0 else f"crashed with {signal.Signals(-self.code).name}"
        return f"{subject} {how}: {self.last_words}" if self.last_words else f"{subject} {how}"


class WorkerTimeout(Exception):
    """A worker did not answer in time and was killed."""


class Worker:
    """A process that answers requests one by one.

    Args:
        connection: this end of the connection to it.
        output: the file of its output.
        end: ends it after a number of seconds, unless it ended by itself, and returns its exit code (see
            :class:`WorkerEnded`).
        summary: extracts one line of its output.
        grace_s: how long it may take to end by itself when it is closed.
    """

    def __init__(
        self,
        connection: Connection,
        output: IO[bytes],
        end: Callable[[float], int | None],
        summary: Callable[[str], str] = last_line,
        grace_s: float = 0.0,
    ):
        self._connection = connection
        self._output = output
        self._end = end
        self._summary = summary
        self._grace_s = grace_s
        self._lock = threading.Lock()
        self._code: int | None = None
        self._has_ended = False

    def ask(self, request: Any, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> Any:
        """Send a request and wait for its answer; see :meth:`receive`."""
        try:
            self._connection.send(request)
        except OSError:
            raise self._end_error() from None
        return self.receive(timeout_s, clock)

    def receive(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> Any:
        """Wait for a message.

        Args:
            timeout_s: how long it may take, by ``clock``.

        Raises:
            WorkerEnded: the worker ended first, by itself or killed.
            WorkerTimeout: no message came in time; the worker was killed.
        """
        remaining_s, last = timeout_s, clock()
        try:
            while not self._connection.poll(max(min(remaining_s, CLOCK_S), 0)):
                now = clock()
                # Time in which this process was suspended does not count.
                remaining_s -= min(now - last, 2 * CLOCK_S)
                last = now
                if remaining_s <= 0:
                    self.kill()
                    raise WorkerTimeout
            return self._connection.recv()
        except (EOFError, OSError):
            raise self._end_error() from None

    def kill(self, grace_s: float = 0.0) -> int | None:
        """End the process, from any thread; returns its exit code (see :class:`WorkerEnded`)."""
        with self._lock:
            if not self._has_ended:
                self._code = self._end(grace_s)
                self._has_ended = True
            return self._code

    def close(self) -> None:
        """End the process and release its resources; for the thread that asks."""
        self.kill(self._grace_s)
        self._connection.close()
        self._output.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end_error(self) -> WorkerEnded:
        code = self.kill(EXIT_S)
        size = os.fstat(self._output.fileno()).st_size
        output = os.pread(self._output.fileno(), OUTPUT_BYTES, max(0, size - OUTPUT_BYTES))
        return WorkerEnded(code, self._summary(output.decode(errors="replace")))
