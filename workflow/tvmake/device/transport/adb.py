"""Devices over adb: which ones there are, which one is meant, and what each way of failing to reach it means."""

import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from tvmake.config.device import AdbDeviceConfig
from tvmake.device.transport.adb_server import server_address
from tvmake.device.transport.shell import CONNECT_S, Unreachable
from tvmake.device.transport.shell_device import ShellDevice
from tvmake.errors import DeviceError, MachineError, TvmakeError
from tvmake.process.supervised import last_line

server_address()  # adbutils reads the variables, too, while it is imported, and raises a ValueError

from adbutils import AdbClient, AdbError, AdbTimeout  # noqa: E402

from tvmake.device.transport.adb_connection import AdbConnection  # noqa: E402

DIRECTORY = "/data/local/tmp/tvmake"
"""Where Android lets adb's shell write and run files."""

START_S = 20.0
"""For adb's server to start."""

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
        "is making up its mind whether to trust this machine",
        "accept the key on its screen, and try again",
    ),
    "sideload": ("is in sideload mode", "let it start up: `adb reboot`"),
}
"""What a state other than ``device`` means, and what to do."""


@dataclass(frozen=True)
class Listed:
    """A device that adb's server sees."""

    serial: str
    state: str
    facts: dict[str, str]
    """``model``, ``product``, ``transport_id`` … as ``adb devices -l`` has them."""


def adb_devices(name: str, config: AdbDeviceConfig) -> list[ShellDevice]:
    """A device for each serial number of the config; one that is found when it is needed where there is none."""
    serials: Sequence[str | None] = config.serial or [os.environ.get("ANDROID_SERIAL") or None]
    return [_device(name, config, serial) for serial in serials]


def listed(where: str = "adb") -> list[Listed]:
    """What adb's server sees; the server is started when it does not run.

    Raises:
        InputError: ANDROID_ADB_SERVER_PORT is no port.
        MachineError: there is no adb.
        DeviceError: its server does not answer.
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
    """The lines of ``adb devices -l``."""
    found = []
    for line in text.splitlines():
        serial, _, rest = line.strip().partition(" ") if "\t" not in line else line.strip().partition("\t")
        words = rest.split()
        if not serial or not words:
            continue
        state = "no permissions" if rest.strip().startswith("no permissions") else words[0]
        facts = dict(word.split(":", 1) for word in words[1:] if ":" in word)
        found.append(Listed(serial, state, facts))
    return found


def _device(name: str, config: AdbDeviceConfig, serial: str | None) -> ShellDevice:
    member = serial or name
    where = f"device '{name}' ({serial})" if serial else f"device '{name}'"

    def connect() -> AdbConnection:
        chosen = choose(serial, listed(where), where, name)
        return AdbConnection(_client(where), chosen, where)

    def address() -> str:
        try:
            there = listed(where) if serial is None else []
        except TvmakeError:
            there = []  # said when it is connected to
        return there[0].serial if len(there) == 1 else member

    return ShellDevice(name, member, config, connect, DIRECTORY, is_android=True, address=address)


def choose(serial: str | None, there: Sequence[Listed], where: str, name: str) -> str:
    """Which device is meant.

    Raises:
        Unreachable: it is not there, or cannot be used as it is.
        DeviceError: there are several, and none is named.
    """
    if serial is None and len(there) > 1:
        serials = ", ".join(f"{one.serial} ({one.facts.get('model', one.state)})" for one in there)
        raise DeviceError(
            where,
            f"adb sees {len(there)} devices, and none is named: {serials}",
            f"set devices.{name}.serial, or ANDROID_SERIAL",
        )
    found = [one for one in there if serial in (None, one.serial)]
    if not found:
        seen = f"; adb sees {', '.join(one.serial for one in there)}" if there else ""
        raise Unreachable(
            where,
            f"adb sees no device {serial}{seen}" if serial else "adb sees no device",
            "connect it and allow USB debugging (Developer options); `adb devices -l` lists what is there",
        )
    (one,) = found
    if one.state != "device":
        problem, remedy = PROBLEMS.get(one.state, (f"is in state '{one.state}'", "see `adb devices -l`"))
        raise Unreachable(where, f"{one.serial} {problem}", remedy)
    return one.serial


def _client(where: str) -> AdbClient:
    """adb's server, started if need be, by the adb that is installed."""
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
