"""Hand a command over to a warm server and end as it ends. Imports little: this is what every step starts with."""

import json
import os
import signal
import socket
import struct
import sys
import zlib
from collections.abc import Callable, Mapping
from types import FrameType

DIRECTORY = "TVMAKE_WARM"
"""Names the directory of the servers' sockets."""

PARENT = "TVMAKE_PARENT"
"""Names the process whose end is also that of the one started with it."""

LENGTH = struct.Struct("!I")
STATUS = struct.Struct("!i")
STARTED = b"+"
MOST_TRIES = 5
"""To reach a server: one that ends leaves those who wait to the next one."""

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def socket_path(directory: str, flavour: str) -> str:
    """Where a server of this kind listens, for this very Python installation."""
    installation = f"{sys.executable}\n{os.path.dirname(__file__)}"  # noqa: PTH120  # pathlib costs 10 ms here
    return f"{directory}/{flavour}-{zlib.crc32(installation.encode()):08x}"


def hand_over(flavour: str, entry: str, arguments: list[str]) -> int | None:
    """Have a server of this kind run ``entry`` (see ``server.ENTRIES``) as if it were this process.

    Returns:
        The exit code; None when there is no such server, and nothing has been done.
    """
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return None
    path = socket_path(directory, flavour)
    # The run removes the path before it turns anybody away. While the path is there, a server that has ended is followed
    # by another one, or the run itself was killed, and its steps end with it.
    for _ in range(MOST_TRIES):
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
                _send(connection, entry, arguments, os.environ, [0, 1, 2])
                has_started = connection.recv(1) == STARTED
            except ConnectionError:
                continue
            except OSError:
                return None
            if has_started:
                return _await_end(connection)
    return None


def _await_end(connection: socket.socket) -> int:
    """Pass signals on to a command until it ends; returns its exit code, or ends as it did."""
    previous = {number: signal.signal(number, _passing_on(connection)) for number in PASSED_ON}
    try:
        status = _receive(connection)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if status is None:
        print("error: the process that ran this step was killed from outside, or out of memory", file=sys.stderr)
        return 128 + signal.SIGKILL
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def start(flavour: str, entry: str, arguments: list[str], environment: Mapping[str, str], stdin: int) -> int | None:
    """Have a server of this kind start ``entry`` as a process that nobody waits for, and that ends by itself.

    Args:
        environment: all of its variables.
        stdin: a file; its standard output is discarded, its standard error is this process's.

    Returns:
        Its number; None when there is no such server, and nothing has been done.
    """
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, open(os.devnull, "w") as discarded:  # noqa: PTH123
        try:
            connection.connect(socket_path(directory, flavour))
            _send(connection, entry, arguments, environment, [stdin, discarded.fileno(), 2], stays=True)
            return _receive(connection) if connection.recv(1) == STARTED else None
        except OSError:
            return None


def _send(
    connection: socket.socket,
    entry: str,
    arguments: list[str],
    environment: Mapping[str, str],
    files: list[int],
    stays: bool = False,
) -> None:
    known = {name: value for name, value in environment.items() if name != PARENT}
    request = {"entry": entry, "arguments": arguments, "directory": os.getcwd(), "environment": known, "stays": stays}  # noqa: PTH109
    text = json.dumps(request).encode()
    socket.send_fds(connection, [LENGTH.pack(len(text))], files)
    connection.sendall(text)


def _passing_on(connection: socket.socket) -> Callable[[int, FrameType | None], None]:
    return lambda number, _frame: connection.send(bytes([number])) and None


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
    return STATUS.unpack(received)[0]


def run_module(flavour: str, entry: str, arguments: list[str]) -> int:
    """Run an entry warm where that is possible, else here."""
    if parent := os.environ.get(PARENT):
        from tvmake.lifeline import die_with

        die_with(int(parent))
    code = hand_over(flavour, entry, arguments)
    if code is not None:
        return code
    from tvmake.warm.entries import run

    return run(entry, arguments)


if __name__ == "__main__":
    sys.exit(run_module(*sys.argv[1:3], sys.argv[3:]))
