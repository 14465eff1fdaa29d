"""A connection to a device over adb: commands (shell protocol 2), files (sync protocol), and tunnels.

adbutils talks to adb's server and selects the device. Shell and sync are implemented here, because adbutils gives commands
no standard input, whose end stops them, and drops the reason why a file cannot be written.
"""

import io
import itertools
import socket
import stat
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path

from adbutils import AdbClient, AdbDevice, AdbError, AdbTimeout

from tvmake.device.transport.shell import CONNECT_S, QUICK_S, Finished, Unreachable, bound_command, command_error
from tvmake.errors import DeviceError

OUTPUT, ERRORS, EXIT = 1, 2, 3
"""Packets of the shell protocol (shell_protocol.h of adb): one byte for the kind, four for the length."""

HEADER = struct.Struct("<BI")
WORD = struct.Struct("<I")

BLOCK = 1 << 16
"""Maximum bytes of a sync packet (SYNC_DATA_MAX of adb)."""

SYNC_S = 60.0
"""How long a phone may take for the next part of a file."""

OUTPUT_BYTES = 100_000
"""Bytes of a server's output to keep; it may run for days."""


class AdbConnection:
    """A :class:`tvmake.device.transport.shell.Shell` over adb; each command has its own connection."""

    def __init__(self, client: AdbClient, serial: str, where: str):
        self.member = serial
        self.where = where
        self.loopback = "127.0.0.1"
        self._device: AdbDevice = client.device(serial)
        self._started: list[AdbStarted] = []
        self._forwarded: list[int] = []
        self._reversed: list[int] = []

    def run(self, command: str, timeout_s: float = QUICK_S) -> Finished:
        started = AdbStarted(self._stream(f"shell,v2,raw:{command}"))
        try:
            finished = started.wait(timeout_s)
        finally:
            started.stop()
        if finished is None:
            raise TimeoutError
        if finished.code < 0:
            raise self._lost(finished.errors)
        return finished

    def start(self, command: str, is_bound: bool = True) -> "AdbStarted":
        started = AdbStarted(self._stream(f"shell,v2,raw:{bound_command(command) if is_bound else command}"))
        self._started.append(started)
        return started

    def send(self, source: Path, destination: str) -> None:
        with self._stream("sync:") as stream, source.open("rb") as file:
            self._sync(stream, b"SEND", f"{destination},{stat.S_IFREG | 0o755}")
            blocks = iter(lambda: file.read(BLOCK), b"")
            parts = (b"DATA" + WORD.pack(len(block)) + block for block in blocks)
            with suppress(
                BrokenPipeError, ConnectionResetError
            ):  # the device ends the transfer, and reports the reason below
                for part in itertools.chain(parts, [b"DONE" + WORD.pack(int(time.time()))]):
                    self._send(stream, part)
            kind, size = self._answer(stream)
            if kind != b"OKAY":
                raise command_error(
                    self.where, f"writing {destination}", self._content(stream, size).decode(errors="replace")
                )

    def fetch(self, source: str, destination: Path) -> None:
        with self._stream("sync:") as stream, destination.open("wb") as file:
            self._sync(stream, b"RECV", source)
            while True:
                kind, size = self._answer(stream)
                if kind == b"DONE":
                    return
                content = self._content(stream, size)
                if kind != b"DATA":
                    raise command_error(self.where, f"reading {source}", content.decode(errors="replace"))
                file.write(content)

    def forward(self, port: int) -> None:
        try:
            self._device.forward(f"tcp:{port}", f"tcp:{port}")
        except AdbError as error:
            raise DeviceError(
                self.where, f"adb cannot forward port {port} ({error})", "see what uses it: `adb forward --list`"
            ) from error
        self._forwarded.append(port)

    def reverse(self, port: int) -> int:
        try:
            self._device.reverse(f"tcp:{port}", f"tcp:{port}")
        except AdbError as error:
            raise DeviceError(
                self.where, f"adb cannot reverse port {port} ({error})", "it needs Android 5 or newer"
            ) from error
        self._reversed.append(port)
        return port

    def close(self) -> None:
        """See :class:`tvmake.device.transport.shell.Shell`. Tunnels belong to adb's server and must be removed."""
        for started in self._started:
            started.stop()
        for port in self._forwarded:
            with suppress(AdbError, OSError), self._device.open_transport(f"killforward:tcp:{port}"):
                pass
        for port in self._reversed:
            with suppress(AdbError, OSError), self._device.open_transport() as transport:
                transport.send_command(f"reverse:killforward:tcp:{port}")
                transport.check_okay()
                transport.check_okay()
        self._started, self._forwarded, self._reversed = [], [], []

    def _stream(self, service: str) -> socket.socket:
        """A connection to a service of the device."""
        try:
            transport = self._device.open_transport(timeout=CONNECT_S)
            transport.send_command(service)
            transport.check_okay()
        except (AdbError, AdbTimeout, OSError) as error:
            raise self._lost(str(error)) from error
        transport.conn.settimeout(SYNC_S if service == "sync:" else None)
        return transport.conn.dup()  # adbutils closes its own when its object is collected

    def _sync(self, stream: socket.socket, command: bytes, path: str) -> None:
        encoded = path.encode()
        try:
            self._send(stream, command + WORD.pack(len(encoded)) + encoded)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._lost(str(error)) from error

    def _send(self, stream: socket.socket, part: bytes) -> None:
        try:
            stream.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except OSError as error:
            raise self._lost(str(error)) from error

    def _answer(self, stream: socket.socket) -> tuple[bytes, int]:
        head = self._content(stream, 8)
        return head[:4], WORD.unpack(head[4:])[0]

    def _content(self, stream: socket.socket, size: int) -> bytes:
        try:
            return _exactly(stream, size)
        except OSError as error:
            raise self._lost(str(error)) from error

    def _lost(self, why: str) -> Unreachable:
        problem = f"the connection was lost ({why})"
        return Unreachable(self.where, problem, "see `adb devices`, reconnect it, and run the same command again")


class AdbStarted:
    """A :class:`tvmake.device.transport.shell.Started` over adb; a thread reads its output."""

    def __init__(self, stream: socket.socket):
        self._stream = stream
        self._output, self._errors = bytearray(), bytearray()
        self._code: int | None = None
        self._reason = ""
        self._thread = threading.Thread(target=self._read, name="adb", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> Finished | None:
        """See :class:`tvmake.device.transport.shell.Started`. The code is negative when the connection was lost."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return None
        if self._code is None:
            return Finished(-1, "", self._reason)
        output, errors = (bytes(part).decode(errors="replace") for part in (self._output, self._errors))
        return Finished(self._code, output, errors)

    def output(self) -> str:
        return bytes(self._output + self._errors).decode(errors="replace")

    def stop(self) -> None:
        """See :class:`tvmake.device.transport.shell.Started`: adb's daemon ends the standard input of a command without a client."""
        with suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._stream.close()

    def _read(self) -> None:
        try:
            while self._code is None:
                kind, size = HEADER.unpack(_exactly(self._stream, HEADER.size))
                content = _exactly(self._stream, size)
                if kind == EXIT:
                    self._code = content[0]
                elif kind in (OUTPUT, ERRORS):
                    buffer = self._output if kind == OUTPUT else self._errors
                    buffer += content
                    del buffer[:-OUTPUT_BYTES]
        except OSError as error:
            self._reason = str(error)


def _exactly(stream: socket.socket, size: int) -> bytes:
    content = io.BytesIO()
    while content.tell() < size:
        part = stream.recv(size - content.tell())
        if not part:
            raise ConnectionResetError("it closed the connection")
        content.write(part)
    return content.getvalue()
