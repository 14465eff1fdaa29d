"""Run a command in a fork server and end as it ends: ``python -m tvmake.process.forkserver.client KIND ENTRY ARGUMENTS``.

An entry point is ``module:function``; the function takes arguments and returns an exit code. Every step imports this module,
so it imports little.
"""

import json
import os
import select
import signal
import socket
import struct
import sys
import zlib
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from tvmake.process.parent_death import PARENT_VARIABLE, end_with_starter
from tvmake.process.python import python_command
from tvmake.process.stopping import SIGNALS

DIRECTORY = "TVMAKE_WARM"
"""The variable for the directory of the servers' sockets."""

LENGTH = struct.Struct("!I")
STATUS = struct.Struct("!i")
STARTED = b"+"
MAX_TRIES = 5
"""Tries to reach a server: if one ends, its waiting clients go to the next."""


def socket_path(directory: str, kind: str) -> str:
    """The socket of a server of this kind, for this Python installation."""
    installation = f"{sys.executable}\n{os.path.dirname(__file__)}"  # noqa: PTH120  # pathlib costs 10 ms here
    return f"{directory}/{kind}-{zlib.crc32(installation.encode()):08x}"


def entry_command(kind: str, entry: str, arguments: Sequence[str]) -> list[str]:
    """The command line of an entry point, which uses a server of this kind if one exists."""
    return python_command("-m", "tvmake.process.forkserver.client", kind, entry, *arguments)


def hand_over(kind: str, entry: str, arguments: Sequence[str]) -> int | None:
    """Run an entry point in a server of this kind, in place of this process.

    Returns:
        The exit code; None without a server, in which case nothing was run.
    """
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return None
    path = socket_path(directory, kind)
    # The run removes the path before its server refuses connections. While the path exists, a server that ended is followed
    # by another, or the run was killed and its steps end too.
    for _ in range(MAX_TRIES):
        if not os.path.exists(path):  # noqa: PTH110  # pathlib costs 10 ms here
            return None
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                connection.connect(path)
            except (ConnectionRefusedError, FileNotFoundError):
                if not os.path.exists(path):  # noqa: PTH110
                    return None
                print("error: the run that this step belongs to was killed", file=sys.stderr)
                return 128 + signal.SIGKILL
            try:
                has_started, status = _run(connection, entry, arguments)
            except OSError:
                return None
            if has_started:
                return _end_like(status)
    return None


def _run(connection: socket.socket, entry: str, arguments: Sequence[str]) -> tuple[bool, int | None]:
    """Whether the server started the command, and its exit code; None if the server was lost."""
    with _Forwarding(connection) as forwarding:
        try:
            _send(connection, entry, arguments, os.environ, [0, 1, 2])
            forwarding.begin()
            forwarding.wait()
            if connection.recv(1) != STARTED:
                return False, None
        except ConnectionError:
            return False, None
        forwarding.commit()
        forwarding.wait()
        return True, _receive(connection)


def _end_like(status: int | None) -> int:
    """The exit code of an ended command; if a signal ended it, end this process by the same signal."""
    if status is None:
        print("error: the process that ran this step was killed from outside, or out of memory", file=sys.stderr)
        return 128 + signal.SIGKILL
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


class _Forwarding:
    """Forward this process's signals to a command; without a command, this process gets them at the end of the block."""

    def __init__(self, connection: socket.socket):
        self._connection = connection
        self._pending: list[int] = []
        self._may_send = self._has_command = False
        self._previous: dict[int, Any] = {}
        # The interpreter writes to it at each signal. Otherwise a signal just before a blocking system call would wait until
        # the call returns.
        self._signal_reader, self._signal_writer = socket.socketpair()

    def __enter__(self) -> "_Forwarding":
        for end in (self._signal_reader, self._signal_writer):
            end.setblocking(False)
        self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}
        self._previous_writer = signal.set_wakeup_fd(self._signal_writer.fileno(), warn_on_full_buffer=False)
        return self

    def wait(self) -> None:
        """Wait for a message of the server, or its end; signals are handled meanwhile."""
        while True:
            ready, _, _ = select.select([self._connection, self._signal_reader], [], [])
            if self._signal_reader in ready:
                self._signal_reader.recv(4096)
            if self._connection in ready:
                return

    def begin(self) -> None:
        """The request was sent; signals may follow it."""
        self._may_send = True
        for number in self._pending:
            self._send(number)

    def commit(self) -> None:
        """The command has started and gets all signals from now on."""
        self._has_command = True

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if not self._has_command:
            self._pending.append(number)
        if self._may_send:
            self._send(number)

    def _send(self, number: int) -> None:
        try:
            self._connection.send(bytes([number]))
        except OSError:
            return  # the server has ended; the reader of its answer notices

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._previous_writer)
        self._signal_reader.close()
        self._signal_writer.close()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if not self._has_command:
            for number in self._pending:
                os.kill(os.getpid(), number)


def start(kind: str, entry: str, arguments: Sequence[str], environment: Mapping[str, str], stdin: int) -> int | None:
    """Start an entry point in a server of this kind as a detached process, which ends by itself.

    Args:
        environment: all of its variables.
        stdin: its standard input. Its output is discarded, and its standard error is this process's.

    Returns:
        Its process number; None without a server, in which case nothing was started.
    """
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, open(os.devnull, "w") as discarded:  # noqa: PTH123
        try:
            connection.connect(socket_path(directory, kind))
            _send(connection, entry, arguments, environment, [stdin, discarded.fileno(), 2], is_detached=True)
            return _receive(connection) if connection.recv(1) == STARTED else None
        except OSError:
            return None


def _send(
    connection: socket.socket,
    entry: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    files: list[int],
    is_detached: bool = False,
) -> None:
    request = {
        "entry": entry,
        "arguments": list(arguments),
        "directory": os.getcwd(),  # noqa: PTH109
        "environment": {name: value for name, value in environment.items() if name != PARENT_VARIABLE},
        "is_detached": is_detached,
    }
    text = json.dumps(request).encode()
    socket.send_fds(connection, [LENGTH.pack(len(text))], files)
    connection.sendall(text)


def _receive(connection: socket.socket) -> int | None:
    received = b""
    while len(received) < STATUS.size:
        try:
            part = connection.recv(STATUS.size - len(received))
        except ConnectionResetError:
            return None
        if not part:
            return None
        received += part
    return int(STATUS.unpack(received)[0])


def run_entry(entry: str, arguments: Sequence[str]) -> int:
    """Run an entry point in this process."""
    import importlib

    from tvmake.process.tvm_import import hide_torch_from_tvm

    hide_torch_from_tvm()
    module, _, function = entry.partition(":")
    return int(getattr(importlib.import_module(module), function)(list(arguments)))


def main(arguments: Sequence[str]) -> int:
    """Run an entry point in a fork of a server if one exists, else here; see the module's docstring."""
    end_with_starter()
    kind, entry, *rest = arguments
    code = hand_over(kind, entry, rest)
    return run_entry(entry, rest) if code is None else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
