"""Asking a TVM RPC tracker for devices, with a limit on every wait.

TVM's own client blocks for ever on a key that nobody serves, and for a minute on a tracker that is down. The protocol
is small: a magic number each way, then JSON messages with their length before them (tvm/rpc/tracker.py).
"""

import json
import socket
import struct
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tvmake.errors import DeviceError

TRACKER_MAGIC = 0x2F271
SERVER_MAGIC = 0xFF271
SUCCESS, REQUEST, SUMMARY = 0, 4, 6
"""Numbers from tvm/rpc/base.py."""

CONNECT_S = 3.0
"""For a machine that is there to accept a connection and to answer."""

POLL_S = 0.5
"""How often to look again while waiting."""

NUMBER = struct.Struct("<i")
LONGEST = 1 << 24
"""Bytes of a message that something else than a tracker may claim to send."""


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def is_reachable(self) -> bool:
        """Whether something accepts connections there; a busy server does, too."""
        try:
            with socket.create_connection((self.host, self.port), CONNECT_S) as connection:
                # With a key that matches nothing, a server answers and goes on waiting; a bare connection upsets it.
                key = b"client:tvmake-is-there"
                connection.sendall(NUMBER.pack(SERVER_MAGIC) + NUMBER.pack(len(key)) + key)
        except OSError:
            return False
        return True


@dataclass(frozen=True)
class Offer:
    """A server that waits for us, for some seconds."""

    address: Address
    match_key: str


class Tracker:
    """One tracker and one key.

    Args:
        priority: among those who wait for a device; higher ones first.
    """

    def __init__(self, host: str, port: int, key: str, priority: int = 1):
        self.host = host
        self.port = port
        self.key = key
        self.priority = priority

    def servers(self) -> list[Address]:
        """Every server of the key, busy or not.

        Raises:
            DeviceError: the tracker cannot be reached.
        """
        try:
            with self._connected() as connection:
                answer = _ask(connection, [SUMMARY])
            listed = answer[1]["server_info"]
            found = [one["addr"] for one in listed if one["key"] == f"server:{self.key}"]
            return [Address(str(host), int(port)) for host, port in found]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise self._is_down(error) from error

    def await_servers(self, wait_s: float, lost: Collection[Address] = ()) -> list[Address]:
        """The servers of the key, as soon as there are any.

        Args:
            lost: those that did not answer when they were needed; they count again when they answer.

        Raises:
            DeviceError: there are none for ``wait_s`` seconds, or no tracker.
        """
        until = time.monotonic() + wait_s
        while True:
            try:
                listed = self.servers()
                if there := [address for address in listed if address not in lost or address.is_reachable()]:
                    return there
                problem = self._is_missing(len(listed), wait_s)
            except DeviceError as error:
                problem = error
            if time.monotonic() >= until:
                raise problem
            time.sleep(min(POLL_S, wait_s))

    def request(self, wait_s: float, is_over: Callable[[], bool] = lambda: False) -> Offer | None:
        """Wait in the tracker's queue for a free server.

        Returns:
            None when none came free in ``wait_s`` seconds, or ``is_over`` became true.

        Raises:
            DeviceError: the tracker cannot be reached.
        """
        until = time.monotonic() + wait_s
        try:
            with self._connected() as connection:
                _send(connection, [REQUEST, self.key, "", self.priority])
                connection.settimeout(POLL_S)
                while not is_over() and time.monotonic() < until:
                    try:
                        connection.recv(1, socket.MSG_PEEK)
                    except TimeoutError:
                        continue
                    connection.settimeout(CONNECT_S)
                    host, port, match_key = _receive(connection)[1]
                    return Offer(Address(str(host), int(port)), str(match_key))
                return None
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise self._is_down(error) from error

    def _connected(self) -> socket.socket:
        connection = socket.create_connection((self.host, self.port), CONNECT_S)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(NUMBER.pack(TRACKER_MAGIC))
            if NUMBER.unpack(_read(connection, NUMBER.size))[0] != TRACKER_MAGIC:
                raise ValueError("what answers there is no TVM tracker")
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_missing(self, listed: int, wait_s: float) -> DeviceError:
        there = f"the {listed} with key '{self.key}'" if listed else f"no server with key '{self.key}'"
        return DeviceError(
            "rpc",
            f"{there} at tracker {self.host}:{self.port} {'do not answer ' if listed else ''}(waited {wait_s:g} s)",
            "start one on the device; `python -m tvm.exec.query_rpc_tracker` shows what is there",
        )

    def _is_down(self, error: Exception) -> DeviceError:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return DeviceError(
            "rpc",
            f"no tracker at {self.host}:{self.port} ({why.lower() or type(error).__name__})",
            "start it with `python -m tvm.exec.rpc_tracker`, or correct its address",
        )


def _ask(connection: socket.socket, message: list[Any]) -> Any:
    _send(connection, message)
    return _receive(connection)


def _send(connection: socket.socket, message: list[Any]) -> None:
    text = json.dumps(message).encode()
    connection.sendall(NUMBER.pack(len(text)) + text)


def _receive(connection: socket.socket) -> Any:
    (size,) = NUMBER.unpack(_read(connection, NUMBER.size))
    if not 0 < size < LONGEST:
        raise ValueError("what answers there is no TVM tracker")
    answer = json.loads(_read(connection, size))
    if not isinstance(answer, list) or answer[0] != SUCCESS:
        raise ValueError(f"the tracker refused: {answer}")
    return answer


def _read(connection: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        # A tracker sends lengths by themselves and waits for them to be acknowledged, which takes 40 ms unless asked for.
        if hasattr(socket, "TCP_QUICKACK"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        part = connection.recv(size - len(read))
        if not part:
            raise ConnectionResetError(None, "it closed the connection")
        read += part
    return read
