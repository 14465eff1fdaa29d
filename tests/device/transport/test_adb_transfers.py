"""A phone that goes away in the middle of a file, by adb's own bytes: said to be lost, whatever byte was the last."""

import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tvmake.device.transport.adb_connection import AdbConnection
from tvmake.device.transport.shell import Unreachable
from tvmake.errors import DeviceError


class Fixed:
    """A phone that answers with the same bytes whatever it is asked, and is gone."""

    def __init__(self, answer: bytes):
        self.answer = answer

    def device(self, _serial: str) -> "Fixed":
        return self

    def open_transport(self, **_: Any) -> "Fixed":
        self.conn, theirs = socket.socketpair()

        def answer() -> None:
            theirs.sendall(self.answer)
            theirs.shutdown(socket.SHUT_WR)
            while theirs.recv(1 << 16):
                pass

        threading.Thread(target=answer, daemon=True).start()
        return self

    def send_command(self, _service: str) -> None: ...

    def check_okay(self) -> None: ...


def part(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("<I", len(content)) + content


def transfer(answer: bytes, act: Callable[[AdbConnection], None]) -> None:
    act(AdbConnection(Fixed(answer), "R58M123ABC", "device 'phone'"))  # type: ignore[arg-type]  # what is used of it


@pytest.mark.parametrize("length", [0, 3, 8, 11, 20])
def test_a_phone_that_is_lost_while_it_gives_a_file(tmp_path: Path, length: int):
    whole = part(b"DATA", b"twelve bytes") + part(b"DONE", b"")
    transfer(whole, lambda phone: phone.fetch("/there", tmp_path / "whole"))
    assert (tmp_path / "whole").read_bytes() == b"twelve bytes"
    with pytest.raises(Unreachable, match="device 'phone': the connection was lost"):
        transfer(whole[:length], lambda phone: phone.fetch("/there", tmp_path / "part"))


@pytest.mark.parametrize("length", [0, 5, 8, 13])
def test_a_phone_that_is_lost_while_it_says_why_it_takes_no_file(tmp_path: Path, length: int):
    file = tmp_path / "file"
    file.write_bytes(b"content")
    refusal = part(b"FAIL", b"read-only")
    with pytest.raises(DeviceError, match=r"writing /there failed: read-only"):
        transfer(refusal, lambda phone: phone.send(file, "/there"))
    with pytest.raises(Unreachable, match="device 'phone': the connection was lost"):
        transfer(refusal[:length], lambda phone: phone.send(file, "/there"))
