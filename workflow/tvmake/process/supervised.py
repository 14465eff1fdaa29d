"""Programs as child processes, each in its own session, so that it is ended with all its children."""

import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, Any, Self

from tvmake.process.fork import signal_group
from tvmake.process.stopping import postpone_stops

DRAIN_S = 5.0
"""How long to wait for the last output of a killed session; a process that left the session may hold a pipe open."""


class ChildProcess:
    """A program that runs until it ends, is killed, or the block ends.

    Args:
        environment: all of its variables; default: this process's.
        stdin, stdout, stderr: as for ``subprocess.Popen``; the default standard input is empty.
        pass_fds: file descriptors that it inherits.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        pass_fds: Sequence[int] = (),
    ):
        self._is_killed = False
        self._process = _start(command, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=pass_fds)

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; False after the timeout."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def read_line(self, timeout_s: float) -> str:
        """The next line of its standard output, which must be a pipe; empty after the timeout."""
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            line: bytes = self._process.stdout.readline() if selector.select(timeout_s) else b""
        return line.decode(errors="replace")

    def kill(self) -> int:
        """End it with all its children; returns its exit code."""
        if not self._is_killed:
            # Even if the program itself has ended: children may still run.
            signal_group(self._process.pid, signal.SIGKILL)
            self._is_killed = True
        return self._process.wait()

    def end(self, grace_s: float) -> int:
        """Like :meth:`kill`, after some time to end by itself."""
        self.wait(grace_s)
        return self.kill()

    def close(self) -> None:
        """End it and close its pipes."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run_supervised(
    command: Sequence[str],
    timeout_s: float,
    *,
    environment: Mapping[str, str] | None = None,
    stdout: int | IO[Any] = subprocess.PIPE,
    stderr: int | IO[Any] = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end without input, as ``subprocess.run`` does.

    Its session is killed after the timeout, or when this process is interrupted.

    Raises:
        subprocess.TimeoutExpired: it did not end in time; has the output so far.
        OSError: it cannot be started.
    """
    process = _start(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        errors="replace",
    )
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise subprocess.TimeoutExpired(command, timeout_s, *_kill(process)) from None
    except BaseException:
        _kill(process)
        raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _start(command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """Start a program in its own session. An interrupt in the meantime ends it."""
    process = None
    try:
        with postpone_stops():
            process = subprocess.Popen(command, start_new_session=True, **options)
    except BaseException:
        if process is not None:
            signal_group(process.pid, signal.SIGKILL)
            process.wait()
        raise
    return process


def _kill(process: "subprocess.Popen[str]") -> tuple[str | None, str | None]:
    """End a session; returns its output."""
    signal_group(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=DRAIN_S)
    except subprocess.TimeoutExpired:
        return None, None
    finally:
        process.wait()


def exit_description(code: int) -> str:
    """How a process ended, in words: ``ended with SIGSEGV``, ``ended with code 3``."""
    return f"ended with {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def last_line(text: str) -> str:
    """The last line that is not blank, stripped; empty without one."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def is_alive(process: int) -> bool:
    """Whether a process of this number exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
