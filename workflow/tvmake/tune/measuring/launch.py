"""Starting templates: forked from a warm server where there is one, else a fresh process."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from tvmake.warm.client import DIRECTORY, start

FLAVOURS = {"build": "tuner", "run": "runtime", "session": "runtime"}
"""Which warm server has what a role needs, and no more: timing wants TVM's runtime only."""

HARMLESS = frozenset({"TVM_USE_RUNTIME_LIB", "TVM_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
"""Variables that a fork may be given: they are read late, or its server has them too. Others may count only while
libraries are loaded."""


class Process(Protocol):
    """A template process, to whoever started it."""

    def kill(self) -> None:
        """End it at once; nothing happens if it has ended."""
        ...

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; whether it came in time."""
        ...


def launch(role: str, control: int, environment: Mapping[str, str]) -> Process:
    """Start a template that is told what to do over the socket ``control``, and that ends when that is closed.

    Args:
        environment: variables for it, beside those of this process.
    """
    everything = {**os.environ, **environment}
    if HARMLESS.issuperset(environment) and everything.get(DIRECTORY) and _has_pidfd():
        process = start(FLAVOURS[role], "template", [role, str(os.getpid())], everything, control)
        if process is not None:
            with suppress(ProcessLookupError):
                return _Forked(process)
    return _Fresh(role, control, everything)


def _has_pidfd() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):  # not Linux, or an old one
        return False
    return True


class _Fresh:
    """A process of its own."""

    def __init__(self, role: str, control: int, environment: Mapping[str, str]):
        command = [sys.executable, "-P", "-m", "tvmake.tune.measuring.template", role, str(control), str(os.getpid())]
        self._process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[control],
            start_new_session=True,
        )

    def kill(self) -> None:
        """See :class:`Process`."""
        self._process.kill()

    def wait(self, timeout_s: float | None = None) -> bool:
        """See :class:`Process`."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True


class _Forked:
    """A fork of a warm server, which is its parent; its number could be another's by now, a pidfd cannot."""

    def __init__(self, process: int):
        self._pidfd = os.pidfd_open(process)

    def __del__(self) -> None:
        if pidfd := self.__dict__.pop("_pidfd", None):
            os.close(pidfd)

    def kill(self) -> None:
        """See :class:`Process`."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def wait(self, timeout_s: float | None = None) -> bool:
        """See :class:`Process`."""
        return bool(select.select([self._pidfd], [], [], timeout_s)[0])
