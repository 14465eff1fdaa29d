"""TVM's tracker behind a guard.

Messages of other forms than servers and clients send end their connection, nothing stops the tracker, and the offers and
requests of a lost connection are dropped. Repair: `rpc-tracker-limits`.
"""

import heapq
import secrets
import socket
import struct
from contextlib import suppress
from typing import Any

from tvm.rpc.base import RPC_TRACKER_MAGIC, TrackerCode
from tvm.rpc.tracker import PriorityScheduler, TCPEventHandler, TrackerServerHandler

MOST_CONNECTIONS = 1024
MOST_KEYS = 256
MOST_WAITING = 64
"""Offers or requests of one connection that are not matched."""

LONGEST_MESSAGE = 16 << 10
LONGEST_TEXT = 512


def is_allowed(message: Any) -> bool:
    """Whether a message has one of the forms that servers and clients of TVM send."""
    match message:
        case [TrackerCode.PING | TrackerCode.SUMMARY | TrackerCode.GET_PENDING_MATCHKEYS]:
            return True
        case [TrackerCode.PUT, str(key), [int(port), str(match)], *rest]:
            is_addressed = not rest or (len(rest) == 1 and (rest[0] is None or isinstance(rest[0], str)))
            return (
                is_addressed
                and 0 <= port < 1 << 16
                and _are_short(key, match, *(rest[0:1] if rest[0:1] != [None] else ()))
            )
        case [TrackerCode.REQUEST, str(key), str(user), int() | float()]:
            return _are_short(key, user)
        case [TrackerCode.UPDATE_INFO, {"key": str(key), "addr": [str() | None, int()]}]:
            return _are_short(key)
    return False


def _are_short(*texts: str) -> bool:
    return all(len(text) <= LONGEST_TEXT for text in texts)


class Connection(TCPEventHandler):
    """One server or client."""

    def _init_conn(self, message: bytes) -> None:
        if len(message) != 4 or struct.unpack("<i", message)[0] != RPC_TRACKER_MAGIC:
            self.close()
        else:
            super()._init_conn(message)

    def on_message(self, message: bytes) -> None:
        """See TVM's class; a message that is too long or invalid ends the connection."""
        if len(self._data) + len(message) > LONGEST_MESSAGE:
            self.close()
            return
        try:
            super().on_message(message)
        except ValueError:  # not UTF-8
            self.close()

    def call_handler(self, args: Any) -> None:
        """See TVM's class; accepts only allowed messages, within the limits."""
        if self._sock is None:
            return
        if not is_allowed(args) or not self._tracker.has_room(self, args):
            self.close()
        elif args[0] == TrackerCode.REQUEST:
            _, key, user, priority = args
            self._tracker.request(key, user, priority, _Request(self))
        else:
            super().call_handler(args)


class _Request:
    """A client that waits for a server."""

    def __init__(self, connection: Connection):
        self.connection = connection

    def __call__(self, value: Any) -> bool:
        if self.connection._sock is None:
            return False
        try:
            self.connection.ret_value([TrackerCode.SUCCESS, value])
        except OSError:
            return False
        return True


class GuardedTracker(TrackerServerHandler):
    """TVM's tracker with limits on connections, keys, and waiting entries per connection."""

    def __init__(self, listening: socket.socket):
        super().__init__(listening, secrets.token_hex(32))

    def _on_event(self, _: int) -> None:
        while True:
            try:
                connection, address = self._sock.accept()
            except OSError:
                return
            if len(self._connections) < MOST_CONNECTIONS:
                Connection(self, connection, address)
            else:
                connection.close()

    def has_room(self, connection: Connection, message: list[Any]) -> bool:
        """Whether a message may add an entry."""
        if message[0] not in (TrackerCode.PUT, TrackerCode.REQUEST):
            return True
        key = message[1]
        waiting = len(connection.pending_matchkeys) + sum(
            request[-1].connection is connection
            for scheduler in self._scheduler_map.values()
            for request in scheduler._requests
        )
        return waiting < MOST_WAITING and (key in self._scheduler_map or len(self._scheduler_map) < MOST_KEYS)

    def close(self, conn: Connection) -> None:
        """Remove a connection with its entries."""
        with suppress(KeyError):
            super().close(conn)
        for key, scheduler in list(self._scheduler_map.items()):
            _forget(scheduler, conn)
            if not scheduler._requests and not scheduler._values:
                del self._scheduler_map[key]


def _forget(scheduler: PriorityScheduler, connection: Connection) -> None:
    scheduler._values = [value for value in scheduler._values if value[0] is not connection]
    scheduler._requests = [request for request in scheduler._requests if request[-1].connection is not connection]
    heapq.heapify(scheduler._requests)
