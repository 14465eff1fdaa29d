"""What adb's host and device protocols have in common: how texts are framed, refusals, and bytes carried both ways."""

import socket
import threading
from contextlib import suppress

HOST = "127.0.0.1"

BLOCK = 1 << 16
"""Bytes moved at once."""


class Refusal(Exception):
    """What a client is told after FAIL."""


def tunnel(listening: socket.socket, host: str, to: str) -> None:
    """Carry what comes in at one port to another."""
    while True:
        try:
            one, _ = listening.accept()
        except OSError:
            return
        try:
            other = socket.create_connection((host, int(to.removeprefix("tcp:"))), 3)
        except OSError:
            one.close()
            continue
        other.settimeout(None)
        for source, target in ((one, other), (other, one)):
            threading.Thread(target=_carry, args=(source, target), daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(BLOCK):
            target.sendall(data)
    for one in (source, target):
        shut(one)


def shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def framed(text: str) -> bytes:
    encoded = text.encode()
    return f"{len(encoded):04x}".encode() + encoded
