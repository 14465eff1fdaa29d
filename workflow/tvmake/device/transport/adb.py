"""Devices over adb: listing, selection, and explanations of failures."""

import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from tvmake.config.device import AdbDeviceConfig
from tvmake.device.transport.shell import CONNECT_S, Unreachable
from tvmake.device.transport.shell_device import ShellDevice
from tvmake.errors import DeviceError, InputError, MachineError, TvmakeError
from tvmake.process.supervised import last_line

HOST, PORT = "127.0.0.1", 5037
"""adb's defaults, unless ANDROID_ADB_SERVER_HOST and ANDROID_ADB_SERVER_PORT are set."""


def server_address() -> tuple[str, int]:
    """Host and port.

    Raises:
        InputError: ANDROID_ADB_SERVER_PORT is not a port.
    """
    text = os.environ.get("ANDROID_ADB_SERVER_PORT", str(PORT))
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise InputError("ANDROID_ADB_SERVER_PORT", f"expected a port (got '{text}')", f"adb's own is {PORT}")
    return os.environ.get("ANDROID_ADB_SERVER_HOST", HOST), int(text)


server_address()  # adbutils reads the variables during its import too, and raises a ValueError

from adbutils import AdbClient, AdbError, AdbTimeout  # noqa: E402

from tvmake.device.transport.adb_connection import AdbConnection  # noqa: E402

DIRECTORY = "/data/local/tmp/tvmake"
"""The directory where Android lets adb's shell write and run files."""

START_S = 20.0
"""How long adb's server may take to start."""

PROBLEMS = {
    "unauthorized": (
        "does not trust this machine",
        "accept the key on the device's screen (`adb reconnect` asks again)",
    ),
    "offline": ("is offline", "reconnect it: `adb reconnect offline`, or pull the cable"),
    "no permissions": ("may not be opened by this user", "add a udev rule for it, and yourself to the group plugdev"),
    "recovery": ("is in recovery", "let it start up: `adb reboot`"),
    "bootloader": ("is in its bootloader", "let it start up: `fastboot reboot`"),
    "authorizing": (
        "is deciding whether to trust this machine",
        "accept the key on its screen, and try again",
    ),
    "sideload": ("is in sideload mode", "let it start up: `adb reboot`"),
}
"""The meaning of states other than ``device``, and the remedy."""


@dataclass(frozen=True)
class Listed:
    """A device in adb's listing."""

    serial: str
    state: str
    facts: dict[str, str]
    """``model``, ``product``, ``transport_id`` … as in ``adb devices -l``."""


def adb_devices(name: str, config: AdbDeviceConfig) -> list[ShellDevice]:
    """A device for each serial number of the config; without any, the device that adb lists when it is used."""
    serials: Sequence[str | None] = config.serial or [os.environ.get("ANDROID_SERIAL") or None]
    return [_device(name, config, serial) for serial in serials]


def list_adb_devices(where: str = "adb") -> list[Listed]:
    """adb's devices; adb's server is started if necessary.

    Raises:
        InputError: ANDROID_ADB_SERVER_PORT is not a port.
        MachineError: adb is not installed.
        DeviceError: adb's server does not answer.
    """
    client = _client(where)
    try:
        with client.make_connection(timeout=CONNECT_S) as connection:
            connection.send_command("host:devices-l")
            connection.check_okay()
            return read_listing(connection.read_string_block())
    except (AdbError, AdbTimeout, OSError) as error:
        raise DeviceError(
            where, f"adb's server does not answer ({error})", "restart it: `adb kill-server; adb start-server`"
        ) from error


def read_listing(text: str) -> list[Listed]:
    """Parse ``adb devices -l``."""
    devices = []
    for line in text.splitlines():
        serial, _, description = line.strip().partition(" ") if "\t" not in line else line.strip().partition("\t")
        words = description.split()
        if not serial or not words:
            continue
        state = "no permissions" if description.strip().startswith("no permissions") else words[0]
        facts = dict(word.split(":", 1) for word in words[1:] if ":" in word)
        devices.append(Listed(serial, state, facts))
    return devices


def _device(name: str, config: AdbDeviceConfig, serial: str | None) -> ShellDevice:
    member = serial or name
    where = f"device '{name}' ({serial})" if serial else f"device '{name}'"

    def connect() -> AdbConnection:
        chosen = select_device(serial, list_adb_devices(where), where, name)
        return AdbConnection(_client(where), chosen, where)

    def address() -> str:
        try:
            there = list_adb_devices(where) if serial is None else []
        except TvmakeError:
            there = []  # the connection reports this error
        return there[0].serial if len(there) == 1 else member

    return ShellDevice(name, member, config, connect, DIRECTORY, is_android=True, address=address)


def select_device(serial: str | None, available: Sequence[Listed], where: str, name: str) -> str:
    """Select a device.

    Raises:
        Unreachable: it is not connected, or not usable.
        DeviceError: several devices are connected, and the config names none.
    """
    if serial is None and len(available) > 1:
        serials = ", ".join(f"{device.serial} ({device.facts.get('model', device.state)})" for device in available)
        raise DeviceError(
            where,
            f"adb lists {len(available)} devices, and the config names none: {serials}",
            f"set devices.{name}.serial, or ANDROID_SERIAL",
        )
    matches = [device for device in available if serial in (None, device.serial)]
    if not matches:
        seen = f"; adb lists {', '.join(device.serial for device in available)}" if available else ""
        raise Unreachable(
            where,
            f"adb does not list device {serial}{seen}" if serial else "adb lists no device",
            "connect it and allow USB debugging (Developer options); `adb devices -l` lists the connected ones",
        )
    (device,) = matches
    if device.state != "device":
        problem, remedy = PROBLEMS.get(device.state, (f"is in state '{device.state}'", "see `adb devices -l`"))
        raise Unreachable(where, f"{device.serial} {problem}", remedy)
    return device.serial


def _client(where: str) -> AdbClient:
    """adb's server, started if necessary by the installed adb."""
    host, port = server_address()
    if not _answers(host, port):
        adb = shutil.which("adb")
        if adb is None:
            raise MachineError(where, "adb is not installed here", "apt-get install adb, or Android's platform tools")
        command = [adb, "-P", str(port), "start-server"]
        try:
            started = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
            why = last_line(started.stderr) or "no message" if started.returncode else None
        except subprocess.TimeoutExpired:
            why = f"not within {START_S:g} s"
        if why is not None:
            raise MachineError(where, f"adb's server does not start ({why})", "see whether `adb start-server` works")
    return AdbClient(host=host, port=port)


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 2).close()
    except OSError:
        return False
    return True
