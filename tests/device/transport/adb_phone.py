"""A phone as adb's daemon presents it: commands run on this machine, files are in a directory, ports are forwarded both ways.

The services are those of adb's SERVICES.TXT, SYNC.TXT and shell_protocol.h: ``shell``, ``shell,v2``, ``sync:`` and
``reverse:``.
"""

import socket
import stat
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from tests.device.transport.adb_wire import BLOCK, HOST, Refusal, exactly, framed, shut, tunnel

STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)
"""Packets of the shell protocol."""

Reverses = dict[tuple[str, str], tuple[str, socket.socket]]
"""By serial number and port of the phone: the port here, and the socket that listens there."""


class Phone:
    """One device; its commands find ``bin`` first, where a test can put words into its mouth."""

    def __init__(self, root: Path, number: int, state: str = "device", **properties: str):
        self.root = root
        self.state = state
        self.loopback = f"127.0.1.{number}"
        self.number = number
        self.bin = root / "bin"
        self.bin.mkdir(parents=True)
        (root / "data/local/tmp").mkdir(parents=True)
        (root / "sys").mkdir()
        self.received: list[tuple[str, int]] = []
        """What was pushed: path and bytes."""
        self.full_after: int | None = None
        """Bytes of a file that still fit."""
        self.properties = {
            "ro.soc.manufacturer": "QTI",
            "ro.soc.model": "SM8550",
            "ro.board.platform": "kalama",
            "ro.product.manufacturer": "Stand",
            "ro.product.model": "In One",
            "ro.build.fingerprint": "stand/in/one:14/UP1A.231005.007/1:user/release-keys",
            "ro.build.version.release": "14",
            **properties,
        }
        cases = "\n".join(f"{name}) echo '{value}';;" for name, value in self.properties.items())
        self.says("getprop", f'case "$1" in\n{cases}\nesac')
        self.says(
            "dumpsys", "echo 'GLES: Qualcomm, Adreno (TM) 740, OpenGL ES 3.2 V@0676.42 (GIT@1234, I5678, 1700000000)'"
        )
        self.says("id", 'test "$1" = -u && echo 2000 || echo uid=2000\\(shell\\)')

    def says(self, command: str, script: str) -> None:
        """Have a command of the phone do this."""
        file = self.bin / command
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def path(self, there: str) -> Path:
        """A path of the phone on this machine."""
        return self.root / there.lstrip("/")

    def command(self, line: str) -> str:
        """A command line with the phone's paths and address instead of this machine's."""
        for prefix in ("/data/local/tmp", "/sys/"):
            line = line.replace(prefix, f"{self.root}{prefix}")
        return line.replace(HOST, self.loopback)

    def told(self, output: bytes) -> bytes:
        """What a command wrote, with the phone's paths."""
        return output.replace(str(self.root).encode(), b"")


class Services:
    """What a device's daemon does for one connection."""

    def __init__(self, connection: socket.socket, phone: Phone, serial: str, reverses: Reverses):
        self.connection = connection
        self.phone = phone
        self.serial = serial
        self.reverses = reverses

    def serve(self, asked: str) -> None:
        kind, _, argument = asked.partition(":")
        if kind.startswith("shell,v2"):
            self.connection.sendall(b"OKAY")
            self._shell(argument)
        elif kind == "shell":
            self.connection.sendall(b"OKAY")
            done = subprocess.run(
                ["/bin/sh", "-c", self.phone.command(argument)], env=self._environment(), capture_output=True
            )
            self.connection.sendall(self.phone.told(done.stdout + done.stderr))
        elif kind == "sync":
            self.connection.sendall(b"OKAY")
            self._sync()
        elif kind == "reverse":
            self._reverse(argument)
        else:
            raise Refusal("closed")

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.phone.bin}:/usr/bin:/bin",
            "TMPDIR": str(self.phone.root / "data/local/tmp"),
            "HOME": "/",
            "LD_LIBRARY_PATH": "",
        }

    def _shell(self, line: str) -> None:
        process = subprocess.Popen(
            ["/bin/sh", "-c", self.phone.command(line)],
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin and process.stdout and process.stderr
        writing = threading.Lock()

        def tell(kind: int, data: bytes) -> None:
            with writing, suppress(OSError):
                self.connection.sendall(struct.pack("<BI", kind, len(data)) + data)

        def pump(kind: int, stream) -> None:
            while data := stream.read1(BLOCK):
                tell(kind, self.phone.told(data))

        def listen() -> None:
            try:
                while True:
                    kind, size = struct.unpack("<BI", exactly(self.connection, 5))
                    data = exactly(self.connection, size)
                    if kind == STDIN:
                        process.stdin.write(data)
                        process.stdin.flush()
                    elif kind == CLOSE_STDIN:
                        break
            except (OSError, EOFError):
                pass  # the client has gone, or the command has stopped reading
            with suppress(OSError):
                process.stdin.close()

        pumps = [
            threading.Thread(target=pump, args=one) for one in ((STDOUT, process.stdout), (STDERR, process.stderr))
        ]
        for thread in pumps:
            thread.start()
        threading.Thread(target=listen, daemon=True).start()
        for thread in pumps:
            thread.join()
        code = process.wait()
        tell(EXIT, bytes([code if code >= 0 else 128 - code]))

    def _sync(self) -> None:
        while True:
            try:
                kind, size = exactly(self.connection, 4), struct.unpack("<I", exactly(self.connection, 4))[0]
            except EOFError:
                return
            if kind == b"QUIT":
                return
            path = exactly(self.connection, size).decode()
            match kind:
                case b"STAT":
                    self.connection.sendall(b"STAT" + struct.pack("<III", *self._stat(path)))
                case b"SEND":
                    if not self._receive(path):
                        return
                case b"RECV":
                    self._give(path)
                case _:
                    raise Refusal(f"unknown sync request {kind!r}")

    def _stat(self, path: str) -> tuple[int, int, int]:
        try:
            found = self.phone.path(path).stat()
        except OSError:
            return 0, 0, 0
        return found.st_mode, found.st_size, int(found.st_mtime)

    def _receive(self, spec: str) -> bool:
        path, _, mode = spec.rpartition(",")
        target = self.phone.path(path)
        size, problem = 0, ""
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            file = target.open("wb")
        except OSError as error:
            self._fail(f"couldn't create file: {error.strerror}")
            return False
        with file:
            while True:
                kind, length = exactly(self.connection, 4), struct.unpack("<I", exactly(self.connection, 4))[0]
                if kind == b"DONE":
                    break
                file.write(exactly(self.connection, length))
                size += length
                if self.phone.full_after is not None and size > self.phone.full_after:
                    problem = "couldn't write file: No space left on device"
        if problem:
            target.unlink()
            self._fail(problem)
            return True
        target.chmod(stat.S_IMODE(int(mode)))
        self.phone.received.append((path, size))
        self.connection.sendall(b"OKAY" + struct.pack("<I", 0))
        return True

    def _give(self, path: str) -> None:
        try:
            data = self.phone.path(path).read_bytes()
        except OSError as error:
            self._fail(f"open failed: {error.strerror}")
            return
        for at in range(0, len(data), BLOCK):
            part = data[at : at + BLOCK]
            self.connection.sendall(b"DATA" + struct.pack("<I", len(part)) + part)
        self.connection.sendall(b"DONE" + struct.pack("<I", 0))

    def _fail(self, why: str) -> None:
        self.connection.sendall(b"FAIL" + struct.pack("<I", len(why)) + why.encode())

    def _reverse(self, asked: str) -> None:
        what, _, argument = asked.partition(":")
        if what == "list-forward":
            lines = [f"(reverse) {remote} {local}\n" for (_, remote), (local, _) in self.reverses.items()]
            self.connection.sendall(b"OKAY" + framed("".join(lines)))
            return
        self.connection.sendall(b"OKAY")  # the service is there; the answer follows
        remote, _, local = argument.removeprefix("norebind:").partition(";")
        key = (self.serial, remote)
        if key in self.reverses:
            shut(self.reverses.pop(key)[1])
        elif what == "killforward":
            raise Refusal(f"listener '{remote}' not found")
        if what == "forward":
            listening = socket.create_server((self.phone.loopback, int(remote.removeprefix("tcp:"))))
            self.reverses[key] = (local, listening)
            threading.Thread(target=tunnel, args=(listening, HOST, local), daemon=True).start()
        self.connection.sendall(b"OKAY")
