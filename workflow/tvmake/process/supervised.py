"""Programs as child processes: each in a session of its own, so that it is ended with all that it started."""

import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, Any, Self

from tvmake.process.fork import signal_group

DRAIN_S = 5.0
"""How long to wait for the last output of a session that was killed; a process that left it may hold a pipe open."""


class ChildProcess:
    """A program that runs until it ends or is killed, at the latest with the block.

    Args:
        environment: all of its variables; this process's own when None.
        stdin, stdout, stderr: as for ``subprocess.Popen``; its standard input is empty unless given.
        pass_fds: files that it inherits.
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
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            start_new_session=True,
        )

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; whether it came in time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def read_line(self, timeout_s: float) -> str:
        """The next line of its standard output, which has to be a pipe; empty if there is none in time."""
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            line: bytes = self._process.stdout.readline() if selector.select(timeout_s) else b""
        return line.decode(errors="replace")

    def kill(self) -> int:
        """End it with all that it started; returns how it ended, now or before."""
        if not self._is_killed:
            # Also where the program itself has ended: it may have left something that runs on.
            signal_group(self._process.pid, signal.SIGKILL)
            self._is_killed = True
        return self._process.wait()

    def end(self, grace_s: float) -> int:
        """As :meth:`kill`, after some time to end by itself."""
        self.wait(grace_s)
        return self.kill()

    def close(self) -> None:
        """End it and close the pipes to it."""
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
    """Run a program to its end, as ``subprocess.run`` does, without input.

    Its session is killed when its time is over, or when this process is interrupted.

    Raises:
        subprocess.TimeoutExpired: it did not end in time; with the output so far.
        OSError: it cannot be started.
    """
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise subprocess.TimeoutExpired(command, timeout_s, *_kill(process)) from None
    except BaseException:
        _kill(process)
        raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _kill(process: "subprocess.Popen[str]") -> tuple[str | None, str | None]:
    """End a session; what it wrote."""
    signal_group(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=DRAIN_S)
    except subprocess.TimeoutExpired:
        return None, None
    finally:
        process.wait()


def exit_description(code: int) -> str:
    """How a process ended, for people: ``ended with SIGSEGV``, ``ended with code 3``."""
    return f"ended with {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def last_line(text: str) -> str:
    """The last line that is not blank, without the space around it; empty if there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def is_alive(process: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
