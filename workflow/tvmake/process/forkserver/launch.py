"""Start a long-lived process with a socket: forked from a server if one exists, else as a new process."""

import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from tvmake.process.forkserver.client import DIRECTORY, entry_command, start
from tvmake.process.parent_death import PARENT_VARIABLE
from tvmake.process.supervised import ChildProcess


class Launched(Protocol):
    """A process as its starter sees it."""

    def kill(self) -> object:
        """End it at once; no effect if it has ended."""
        ...

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; False after the timeout."""
        ...


def launch(
    kind: str,
    entry: str,
    arguments: Sequence[str],
    control: int,
    environment: Mapping[str, str],
    late_variables: frozenset[str] = frozenset(),
) -> Launched:
    """Start an entry point (see :mod:`tvmake.process.forkserver.client`) with a socket as its standard input.

    It must end when the socket closes or its starter ends.

    Args:
        environment: additional variables.
        late_variables: variables that work in a fork too, because they are read late or the server has them. Other variables
            are read while libraries load, and require a new process.
    """
    everything = {**os.environ, **environment}
    if late_variables.issuperset(environment) and everything.get(DIRECTORY) and _has_pidfd():
        process = start(kind, entry, arguments, everything, control)
        if process is not None:
            with suppress(ProcessLookupError):
                return _Forked(process)
    for name in (DIRECTORY, PARENT_VARIABLE):
        everything.pop(name, None)
    return ChildProcess(entry_command(kind, entry, arguments), everything, stdin=control, stdout=subprocess.DEVNULL)


def _has_pidfd() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):  # not Linux, or an old kernel
        return False
    return True


class _Forked:
    """A fork of a server, identified by a pidfd: its number could be reused."""

    def __init__(self, process: int):
        self._pidfd = os.pidfd_open(process)

    def __del__(self) -> None:
        if "_pidfd" in self.__dict__:
            os.close(self._pidfd)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def wait(self, timeout_s: float | None = None) -> bool:
        return bool(select.select([self._pidfd], [], [], timeout_s)[0])
