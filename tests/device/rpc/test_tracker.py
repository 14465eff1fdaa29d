"""The tracker that tvmake starts: it serves TVM's servers and clients, and nobody else ends it or fills it."""

import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.patience import HANG_S, wait_until
from tvmake.device.rpc.guarded_tracker import LONGEST_MESSAGE, MOST_KEYS, MOST_WAITING
from tvmake.device.rpc.tracker import Tracker
from tvmake.process.supervised import ChildProcess

MAGIC = 0x2F271
STOP, PUT, REQUEST, UPDATE_INFO, SUMMARY = 2, 3, 4, 5, 6


@pytest.fixture(scope="module")
def tracker() -> Iterator[tuple[ChildProcess, int]]:
    """A tracker and its port."""
    command = [sys.executable, "-P", "-m", "tvmake.device.rpc.tracker_process", "127.0.0.1", "0"]
    with ChildProcess(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        yield process, int(process.read_line(HANG_S).rpartition(":")[2])


@pytest.fixture
def port(tracker: tuple[ChildProcess, int]) -> Iterator[int]:
    """The tracker's port. It is still running after the test."""
    process, port = tracker
    yield port
    assert process.code is None, "the tracker has ended"


class Client:
    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port), HANG_S)
        self.socket.sendall(struct.pack("<i", MAGIC))
        assert struct.unpack("<i", self.read(4))[0] == MAGIC

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (part := self.socket.recv(size - len(data))):
            data += part
        return data

    def send(self, message: object) -> None:
        text = json.dumps(message).encode()
        self.socket.sendall(struct.pack("<i", len(text)) + text)

    def answer(self) -> object:
        """The next answer; None once the tracker has closed the connection."""
        try:
            size = self.read(4)
            return json.loads(self.read(struct.unpack("<i", size)[0])) if size else None
        except ConnectionError:
            return None

    def ask(self, message: object) -> object:
        self.send(message)
        return self.answer()


def test_a_server_is_offered_to_the_client_that_asked_for_it(port: int):
    server, client = Client(port), Client(port)
    assert server.ask([UPDATE_INFO, {"key": "server:k", "addr": [None, 9091]}]) == 0
    assert server.ask([PUT, "k", [9091, "k:0.5"], None]) == 0
    assert Tracker("127.0.0.1", port, "k").waiting()["k"] == {"total": 1, "free": 1, "pending": 0}
    assert client.ask([REQUEST, "k", "", 1]) == [0, ["127.0.0.1", 9091, "k:0.5"]]


@pytest.mark.parametrize(
    "message",
    [
        [STOP, "tvmake"],
        [STOP, ""],
        [],
        {},
        "text",
        None,
        [99],
        [PUT, "k", [-1, "k:1"], None],
        [PUT, 7, [1, "k:1"], None],
        [REQUEST, "x" * 10_000, "", 1],
        [REQUEST, "k", "", "first"],
        [UPDATE_INFO, {"key": "server:k", "addr": [None, 1], "more": "x" * LONGEST_MESSAGE}],
    ],
)
def test_other_messages_end_their_connection_and_nothing_else(port: int, message: object):
    assert Client(port).ask(message) is None
    assert Client(port).ask([SUMMARY])[0] == 0


def test_bytes_that_are_no_message_end_their_connection(port: int):
    for noise in (
        b"GET / HTTP/1.0\r\n\r\n",
        struct.pack("<i", -5),
        struct.pack("<i", 1 << 30),
        b"\x05\0\0\0\xff\xff\xff\xff\xff",
    ):
        client = Client(port)
        client.socket.sendall(noise)
        assert client.answer() is None
    assert Client(port).ask([SUMMARY])[0] == 0


def test_made_up_keys_are_limited_and_go_with_whoever_made_them_up(port: int):
    clients = [Client(port) for _ in range(MOST_KEYS // MOST_WAITING + 2)]
    for number, client in enumerate(clients):
        for index in range(MOST_WAITING + 10):
            try:
                client.send([REQUEST, f"key {number} {index}", "", 1])
            except ConnectionError:
                break
    assert len(Client(port).ask([SUMMARY])[1]["queue_info"]) <= MOST_KEYS
    for client in clients:
        client.socket.close()
    wait_until(lambda: not Client(port).ask([SUMMARY])[1]["queue_info"])
