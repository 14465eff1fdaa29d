"""A fake of adb's server and its phones: the real host protocol, commands run on this machine.

It speaks what adb's server speaks (adb's OVERVIEW.TXT and SERVICES.TXT): host services, transports and forward here, what
a phone's daemon does in ``adb_phone``; the real adb client and adbutils both talk to it. A phone is a directory: its
``/data/local/tmp`` and ``/sys`` lie there, and its loopback address is another one of this machine's.
"""

import shutil
import socket
import struct
import threading
from pathlib import Path

from tests.device.transport.adb_phone import Phone, Services
from tests.device.transport.adb_wire import HOST, Refusal, exactly, framed, shut, tunnel

VERSION = 41
"""Of adb's protocol between client and server, as platform tools since 30 and Debian's 29.0.6 have it."""

FEATURES = "shell_v2,cmd"


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
            shut(connection)
        for table in (self.forwards, self.reverses):
            for key in [key for key in table if key[0] == serial]:
                shut(table.pop(key)[1])

    def close(self) -> None:
        self._over.set()
        shut(self._listening)
        for connection in list(self._open):
            shut(connection)
        for _, listening in [*self.forwards.values(), *self.reverses.values()]:
            shut(listening)
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
            shut(connection)


class _Conversation:
    """One client's connection."""

    def __init__(self, server: AdbServer, connection: socket.socket):
        self.server = server
        self.connection = connection

    def hold(self) -> None:
        serial: str | None = None
        while True:
            try:
                size = int(exactly(self.connection, 4), 16)
            except EOFError:
                return
            asked = exactly(self.connection, size).decode()
            self.server.asked.append(asked)
            try:
                if serial is None:
                    serial = self._host(asked)
                elif asked.startswith("host:"):  # clients choose a transport before they forward
                    self._host(f"host-serial:{serial}:{asked.removeprefix('host:')}")
                    return
                else:
                    Services(self.connection, self.phone(serial), serial, self.server.reverses).serve(asked)
                    return
                if serial is None:
                    return
            except Refusal as refusal:
                self.send(b"FAIL" + framed(str(refusal)))
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
                self.send(b"OKAY" + framed(f"{VERSION:04x}"))
            case "features" | "host-features":
                if serial:
                    self.phone(serial)
                self.send(b"OKAY" + framed(FEATURES))
            case "devices" | "devices-l":
                self.send(b"OKAY" + framed(self._listing(is_long=what == "devices-l")))
            case "get-state":
                self.send(b"OKAY" + framed(self.phone(serial or self._only()).state))
            case "get-serialno":
                self.send(b"OKAY" + framed(serial or self._only()))
            case "list-forward":
                lines = [f"{one} {local} {remote}\n" for (one, local), (remote, _) in self.server.forwards.items()]
                self.send(b"OKAY" + framed("".join(lines)))
            case "forward":
                self._forward(serial or self._only(), what.removeprefix("forward:"))
            case "killforward":
                key = (serial or self._only(), what.removeprefix("killforward:"))
                if key not in self.server.forwards:
                    raise Refusal(f"listener '{key[1]}' not found")
                shut(self.server.forwards.pop(key)[1])
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
            shut(self.server.forwards.pop(key)[1])
        try:
            listening = socket.create_server((HOST, int(local.removeprefix("tcp:"))))
        except OSError as error:
            raise Refusal(f"cannot bind listener: {error.strerror}") from None
        self.server.forwards[key] = (remote, listening)
        threading.Thread(target=tunnel, args=(listening, phone.loopback, remote), daemon=True).start()
        self.send(b"OKAYOKAY")
