"""Query a TVM RPC tracker for devices, with a limit on every wait.

TVM's own client blocks forever on a key without servers, and for a minute on a tracker that is down. The protocol is small:
a magic number in each direction, then JSON messages with their lengths first (tvm/rpc/tracker.py).
"""

import json
import os
import socket
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tvmake.config.device import RpcDeviceConfig, split_address
from tvmake.device.address import CONNECT_S, NUMBER, Address
from tvmake.errors import DeviceError

VARIABLES = ("TVM_TRACKER_HOST", "TVM_TRACKER_PORT")
"""The variables in which TVM's own tools find a tracker."""

TRACKER_MAGIC = 0x2F271
SUCCESS, REQUEST, SUMMARY = 0, 4, 6
"""Numbers from tvm/rpc/base.py."""

POLL_S = 0.5
"""The interval of checks while waiting."""

LONGEST = 1 << 24
"""Maximum bytes of a message; a program other than a tracker may claim any length."""


@dataclass(frozen=True)
class Offer:
    """A server that waits for its client, for some seconds."""

    address: Address
    match_key: str


class Tracker:
    """One tracker and one key.

    Args:
        priority: among waiting clients; higher ones first.
    """

    def __init__(self, host: str, port: int, key: str, priority: int = 1, where: str = "rpc"):
        self.host = host
        self.port = port
        self.key = key
        self.priority = priority
        self.where = where

    @classmethod
    def of(cls, name: str, config: RpcDeviceConfig) -> "Tracker":
        """The tracker of a device in the config; without one, that of this machine's environment.

        Raises:
            DeviceError: neither names one.
        """
        where = f"device '{name}'"
        address = config.tracker or ":".join(os.environ.get(variable, "") for variable in VARIABLES)
        try:
            host, port = split_address(address)
        except ValueError as error:
            problem = "no tracker is known"
            if address != ":":
                problem = f"{' and '.join(VARIABLES)} do not name a tracker: {error}"
            is_address = name.startswith("rpc:")  # an address instead of a device of the config
            key = "write it as rpc:TRACKER:PORT/KEY" if is_address else f"set devices.{name}.tracker (host:port)"
            remedy = f"{key}, or set {' and '.join(VARIABLES)}"
            raise DeviceError(where, problem, remedy) from None
        return cls(host, port, config.key, config.priority, where)

    def servers(self) -> list[Address]:
        """All servers of the key, busy or not.

        Raises:
            DeviceError: the tracker cannot be reached.
        """
        try:
            with self._connect() as connection:
                answer = _ask(connection, [SUMMARY])
            listed = answer[1]["server_info"]
            addresses = [entry["addr"] for entry in listed if entry["key"] == f"server:{self.key}"]
            return [Address(str(host), int(port)) for host, port in addresses]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise self._is_down(error) from error

    def waiting(self) -> dict[str, dict[str, int]]:
        """The tracker's counts for each key: ``free`` servers, and ``pending`` requests.

        Raises:
            DeviceError: the tracker cannot be reached.
        """
        try:
            with self._connect() as connection:
                answer = _ask(connection, [SUMMARY])
            queues, listed = answer[1]["queue_info"], answer[1]["server_info"]
            table = {str(key): {"total": 0, **queue} for key, queue in queues.items()}
            for entry in listed:
                key = str(entry["key"]).partition(":")[2]
                table.setdefault(key, {"total": 0, "free": 0, "pending": 0})["total"] += 1
            return dict(sorted(table.items()))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise self._is_down(error) from error

    def await_servers(self, wait_s: float, lost: Collection[Address] = ()) -> list[Address]:
        """The servers of the key, as soon as there are any.

        Args:
            lost: servers that did not answer when they were used; they count again when they answer.

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
            None if none became free in ``wait_s`` seconds, or ``is_over`` became true.

        Raises:
            DeviceError: the tracker cannot be reached.
        """
        until = time.monotonic() + wait_s
        try:
            with self._connect() as connection:
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

    def _connect(self) -> socket.socket:
        connection = socket.create_connection((self.host, self.port), CONNECT_S)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(NUMBER.pack(TRACKER_MAGIC))
            if NUMBER.unpack(_read(connection, NUMBER.size))[0] != TRACKER_MAGIC:
                raise ValueError("a program that is not a TVM tracker answers")
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_missing(self, listed: int, wait_s: float) -> DeviceError:
        servers = f"the {listed} with key '{self.key}'" if listed else f"no server with key '{self.key}'"
        return DeviceError(
            self.where,
            f"{servers} at tracker {self} {'do not answer ' if listed else ''}(waited {wait_s:g} s)",
            f"start one on the device: `tvmake device serve --tracker {self} --key {self.key}`, or TVM's own"
            " (docs/guides/devices-rpc.md)",
        )

    def _is_down(self, error: Exception) -> DeviceError:
        if isinstance(error, TimeoutError):
            remedy = "restart it if it hangs; else correct its address, or check the network and firewalls"
            return DeviceError(self.where, f"the tracker at {self} does not answer", remedy)
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        remedy = f"start it: `tvmake device tracker --port {self.port}`, or correct its address"
        return DeviceError(self.where, f"no tracker at {self} ({why.lower() or type(error).__name__})", remedy)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _ask(connection: socket.socket, message: list[Any]) -> Any:
    _send(connection, message)
    return _receive(connection)


def _send(connection: socket.socket, message: list[Any]) -> None:
    text = json.dumps(message).encode()
    connection.sendall(NUMBER.pack(len(text)) + text)


def _receive(connection: socket.socket) -> Any:
    (size,) = NUMBER.unpack(_read(connection, NUMBER.size))
    if not 0 < size < LONGEST:
        raise ValueError("a program that is not a TVM tracker answers")
    answer = json.loads(_read(connection, size))
    if not isinstance(answer, list) or answer[0] != SUCCESS:
        raise ValueError(f"the tracker refused: {answer}")
    return answer


def _read(connection: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        # A tracker sends a length separately and waits for its acknowledgement, which takes 40 ms unless requested at once.
        if hasattr(socket, "TCP_QUICKACK"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        part = connection.recv(size - len(read))
        if not part:
            raise ConnectionResetError(None, "it closed the connection")
        read += part
    return read
