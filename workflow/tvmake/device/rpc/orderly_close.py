"""Close the connection to a server in an orderly way when the process that uses it is killed.

A small process shares the connection. When the other process is gone, it reads the last reply and closes the connection only then.
Repair: `rpc-server-after-kill`.
"""

import os
import signal
import socket
from contextlib import suppress

from tvmake.process.fork import fork

DESCRIPTORS = 4096
"""File descriptors to check, and to close."""

GRACE_S = 10.0
"""How long the server may take to end a session after its time limit."""


def close_after_death(host: str, port: int, timeout_s: float) -> None:
    """Start a helper process that outlives this one until the server has answered on this process's connection.

    Args:
        host, port: the server's address; this process has one connection to it.
        timeout_s: the time after which the server ends the session.
    """
    connected = client_connection(host, port)
    if connected is None:
        return
    reading, _writing = os.pipe()  # the other end closes when this process ends
    fork(lambda: _wait(connected, reading, timeout_s + GRACE_S), leads="session", is_bound=False)
    os.close(reading)
    connected.close()


def client_connection(host: str, port: int) -> socket.socket | None:
    """A duplicate of this process's connection to a server, which TVM's client does not expose."""
    addresses = {address[4][:2] for address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    for number in range(3, DESCRIPTORS):
        with suppress(OSError):  # closed, not a socket, or not connected
            duplicate = socket.socket(fileno=os.dup(number))
            if duplicate.type == socket.SOCK_STREAM and duplicate.getpeername()[:2] in addresses:
                return duplicate
            duplicate.close()
    return None


def _wait(connected: socket.socket, reading: int, limit_s: float) -> None:
    with suppress(OSError):  # the server has closed it, or the time is over
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        remaining = sorted({connected.fileno(), reading})
        for first, end in zip([-1, *remaining], [*remaining, DESCRIPTORS], strict=True):
            os.closerange(first + 1, end)
        os.read(reading, 1)
        connected.shutdown(socket.SHUT_WR)
        connected.settimeout(limit_s)
        while connected.recv(1 << 16):
            pass
