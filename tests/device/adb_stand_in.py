"""Stands in for adb's server and the phones behind it: the real host protocol, commands run on this machine.

It speaks what adb's server speaks (adb's OVERVIEW.TXT, SERVICES.TXT and SYNC.TXT, and shell_protocol.h): host services,
transports, ``shell,v2``, ``sync:``, forward and reverse; the real adb client and adbutils both talk to it. A phone is a
directory: its ``/data/local/tmp`` and ``/sys`` lie there, and its loopback address is another one of this machine's.
"""

import shutil
import socket
import stat
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

VERSION = 41
"""Of adb's protocol between client and server, as platform tools since 30 and Debian's 29.0.6 have it."""

FEATURES = "shell_v2,cmd"

STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)
"""Packets of the shell protocol."""

HOST = "127.0.0.1"

BLOCK = 1 << 16


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
        """A command line with the phone's paths and address in place of this machine's."""
        for prefix in ("/data/local/tmp", "/sys/"):
            line = line.replace(prefix, f"{self.root}{prefix}")
        return line.replace(HOST, self.loopback)

    def told(self, output: bytes) -> bytes:
        """What a command wrote, with the phone's paths."""
        return output.replace(str(self.root).encode(), b"")


class AdbServer:
    """The stand-in: listens until it is closed."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.phones: dict[str, Phone] = {}
        self.forwards: dict[tuple[str, str], tuple[str, socket.socket]] = {}
        self.reverses: dict[tuple[str, str], tuple[str, socket.socket]] = {}
        self.asked: list[str] = []
        self._over = threading.Event()
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server((HOST, 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """What makes clients come here."""
        return {"ANDROID_ADB_SERVER_PORT": str(self.port), "ANDROID_ADB_SERVER_HOST": HOST}

    def add(self, serial: str, state: str = "device", **properties: str) -> Phone:
        self.phones[serial] = Phone(self.directory / serial, len(self.phones) + 1, state, **properties)
        return self.phones[serial]

    def unplug(self, serial: str) -> None:
        """As when the cable is pulled: every connection to it ends, with its tunnels."""
        del self.phones[serial]
        for connection in list(self._open):
            _end(connection)
        for table in (self.forwards, self.reverses):
            for key in [key for key in table if key[0] == serial]:
                _end(table.pop(key)[1])

    def close(self) -> None:
        self._over.set()
        _end(self._listening)
        for connection in list(self._open):
            _end(connection)
        for _, listening in [*self.forwards.values(), *self.reverses.values()]:
            _end(listening)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        self._open.add(connection)
        try:
            _Conversation(self, connection).hold()
        except OSError:
            pass  # the client has gone
        finally:
            self._open.discard(connection)
            _end(connection)


class Refusal(Exception):
    """What a client is told after FAIL."""


class _Conversation:
    """One client's connection."""

    def __init__(self, server: AdbServer, connection: socket.socket):
        self.server = server
        self.connection = connection

    def hold(self) -> None:
        serial: str | None = None
        while True:
            try:
                size = int(_exactly(self.connection, 4), 16)
            except EOFError:
                return
            asked = _exactly(self.connection, size).decode()
            self.server.asked.append(asked)
            try:
                if serial is None:
                    serial = self._host(asked)
                elif asked.startswith("host:"):  # clients choose a transport before they forward
                    self._host(f"host-serial:{serial}:{asked.removeprefix('host:')}")
                    return
                else:
                    _Services(self, serial).serve(asked)
                    return
                if serial is None:
                    return
            except Refusal as refusal:
                self.send(b"FAIL" + _block(str(refusal)))
                return

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def phone(self, serial: str) -> Phone:
        found = self.server.phones.get(serial)
        if found is None:
            raise Refusal(f"device '{serial}' not found")
        if found.state == "unauthorized":
            raise Refusal("device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set")
        if found.state != "device":
            raise Refusal(f"device {found.state}")
        return found

    def _only(self) -> str:
        if not self.server.phones:
            raise Refusal("no devices/emulators found")
        if len(self.server.phones) > 1:
            raise Refusal("more than one device/emulator")
        return next(iter(self.server.phones))

    def _host(self, asked: str) -> str | None:
        """A host service; returns the serial number when the client has chosen a transport."""
        if asked.startswith(("host:transport", "host:tport")):
            return self._transport(asked)
        serial, what = self._addressed(asked)
        match what.split(":")[0]:
            case "version":
                self.send(b"OKAY" + _block(f"{VERSION:04x}"))
            case "features" | "host-features":
                if serial:
                    self.phone(serial)
                self.send(b"OKAY" + _block(FEATURES))
            case "devices" | "devices-l":
                self.send(b"OKAY" + _block(self._listing(is_long=what == "devices-l")))
            case "get-state":
                self.send(b"OKAY" + _block(self.phone(serial or self._only()).state))
            case "get-serialno":
                self.send(b"OKAY" + _block(serial or self._only()))
            case "list-forward":
                lines = [f"{one} {local} {remote}\n" for (one, local), (remote, _) in self.server.forwards.items()]
                self.send(b"OKAY" + _block("".join(lines)))
            case "forward":
                self._forward(serial or self._only(), what.removeprefix("forward:"))
            case "killforward":
                key = (serial or self._only(), what.removeprefix("killforward:"))
                if key not in self.server.forwards:
                    raise Refusal(f"listener '{key[1]}' not found")
                _end(self.server.forwards.pop(key)[1])
                self.send(b"OKAYOKAY")
            case "kill":
                self.send(b"OKAY")
                self.server.close()
            case _:
                raise Refusal(f"unknown host service '{what}'")
        return None

    def _addressed(self, asked: str) -> tuple[str | None, str]:
        if asked.startswith("host-serial:"):
            rest = asked.removeprefix("host-serial:")
            for serial in self.server.phones:
                if rest.startswith(f"{serial}:"):
                    return serial, rest.removeprefix(f"{serial}:")
            raise Refusal(f"device '{rest.rpartition(':')[0]}' not found")
        if asked.startswith("host-transport-id:"):
            number, _, what = asked.removeprefix("host-transport-id:").partition(":")
            return self._numbered(number), what
        return None, asked.partition(":")[2]

    def _numbered(self, number: str) -> str:
        for serial, phone in self.server.phones.items():
            if str(phone.number) == number:
                return serial
        raise Refusal(f"no device with transport id '{number}'")

    def _transport(self, asked: str) -> str:
        _, kind, *rest = asked.split(":")
        if kind == "transport-id":
            serial = self._numbered(rest[0])
        elif kind in ("transport-any", "transport-usb", "transport-local") or rest == ["any"]:
            serial = self._only()
        else:
            serial = ":".join(rest).removeprefix("serial:") if kind == "tport" else ":".join(rest)
        phone = self.phone(serial)
        self.send(b"OKAY" + (struct.pack("<Q", phone.number) if kind == "tport" else b""))
        return serial

    def _listing(self, is_long: bool) -> str:
        lines = []
        for serial, phone in self.server.phones.items():
            facts = f"product:stand model:{phone.properties['ro.product.model'].replace(' ', '_')} device:one"
            more = (
                f" {facts} transport_id:{phone.number}" if phone.state == "device" else f" transport_id:{phone.number}"
            )
            lines.append(f"{serial:<22} {phone.state}{more}\n" if is_long else f"{serial}\t{phone.state}\n")
        return "".join(lines)

    def _forward(self, serial: str, what: str) -> None:
        phone = self.phone(serial)
        is_new = what.startswith("norebind:")
        local, _, remote = what.removeprefix("norebind:").partition(";")
        key = (serial, local)
        if key in self.server.forwards:
            if is_new:
                raise Refusal("cannot rebind existing socket")
            _end(self.server.forwards.pop(key)[1])
        try:
            listening = socket.create_server((HOST, int(local.removeprefix("tcp:"))))
        except OSError as error:
            raise Refusal(f"cannot bind listener: {error.strerror}") from None
        self.server.forwards[key] = (remote, listening)
        threading.Thread(target=_tunnel, args=(listening, phone.loopback, remote), daemon=True).start()
        self.send(b"OKAYOKAY")


class _Services:
    """What a device's daemon does."""

    def __init__(self, conversation: _Conversation, serial: str):
        self.server = conversation.server
        self.connection = conversation.connection
        self.phone = conversation.phone(serial)
        self.serial = serial

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
                    kind, size = struct.unpack("<BI", _exactly(self.connection, 5))
                    data = _exactly(self.connection, size)
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
                kind, size = _exactly(self.connection, 4), struct.unpack("<I", _exactly(self.connection, 4))[0]
            except EOFError:
                return
            if kind == b"QUIT":
                return
            path = _exactly(self.connection, size).decode()
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
                kind, length = _exactly(self.connection, 4), struct.unpack("<I", _exactly(self.connection, 4))[0]
                if kind == b"DONE":
                    break
                file.write(_exactly(self.connection, length))
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
            lines = [f"(reverse) {remote} {local}\n" for (_, remote), (local, _) in self.server.reverses.items()]
            self.connection.sendall(b"OKAY" + _block("".join(lines)))
            return
        self.connection.sendall(b"OKAY")  # the service is there; the answer follows
        remote, _, local = argument.removeprefix("norebind:").partition(";")
        key = (self.serial, remote)
        if key in self.server.reverses:
            _end(self.server.reverses.pop(key)[1])
        elif what == "killforward":
            raise Refusal(f"listener '{remote}' not found")
        if what == "forward":
            listening = socket.create_server((self.phone.loopback, int(remote.removeprefix("tcp:"))))
            self.server.reverses[key] = (local, listening)
            threading.Thread(target=_tunnel, args=(listening, HOST, local), daemon=True).start()
        self.connection.sendall(b"OKAY")


def _tunnel(listening: socket.socket, host: str, to: str) -> None:
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
    for end in (source, target):
        _end(end)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _block(text: str) -> bytes:
    encoded = text.encode()
    return f"{len(encoded):04x}".encode() + encoded
