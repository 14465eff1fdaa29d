"""A proxy between a client and a server on this machine: counts what clients send, damages it, cuts it off."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

from tests.tune.measure.farm import HOST

ELSEWHERE = "127.0.0.2"
"""Another address of this machine: the server listens at one, and clients are told the other, under the same port."""


class Proxy:
    """Forwards one port from ``ELSEWHERE`` to the same at ``HOST``."""

    def __init__(self, port: int):
        self.sent = bytearray()
        """What clients sent, as it came."""
        self._port = port
        self._marks: list[bytes] = []
        self._cuts = False
        self._listener = socket.create_server((ELSEWHERE, port))
        threading.Thread(target=self._accept, daemon=True).start()

    def alter(self, content: bytes) -> None:
        """Flip a bit in the middle of this, the next time that it is sent."""
        self._marks, self._cuts = pieces(content), False

    def cut(self, content: bytes) -> None:
        """Break the connection in the middle of this, the next time that it is sent."""
        self._marks, self._cuts = pieces(content), True

    @property
    def has_done_it(self) -> bool:
        """Whether nothing is left to alter or to cut."""
        return not self._marks

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((HOST, self._port))
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._forward, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._forward, args=(server, client, False), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, is_up: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if is_up:
                    self.sent += data
                    found = next((data.find(mark) for mark in self._marks if mark in data), None)
                    if found is not None:
                        self._marks = []
                        if self._cuts:
                            sink.sendall(data[:found])
                            break
                        data = data[:found] + bytes([data[found] ^ 1]) + data[found + 1 :]
                sink.sendall(data)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def pieces(content: bytes) -> list[bytes]:
    """Parts of the inner half that are nowhere else; a packet may divide some of them, but not all."""
    begin, end = len(content) // 4, 3 * len(content) // 4
    found = [content[at : at + 32] for at in range(begin, end - 32, 32)]
    telling = [piece for piece in found if len(set(piece)) > 16]
    assert telling
    return telling[:: max(len(telling) // 16, 1)]


def is_in(stream: bytes, file: Path) -> bool:
    """Whether any piece of a file is in what was sent."""
    return any(piece in stream for piece in pieces(file.read_bytes()))
