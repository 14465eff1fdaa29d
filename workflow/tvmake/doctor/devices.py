"""Devices within reach: OpenCL, Android over adb, and TVM's RPC tracker."""

import ctypes.util
import json
import os
import shutil
import socket
import struct
from collections.abc import Mapping
from typing import Any

from tvmake.doctor.check import Check, ending, output_of
from tvmake.process.python import python_command

GROUP = "devices"
OPENCL_TIMEOUT_S = 30.0
ADB_TIMEOUT_S = 15.0
TRACKER_TIMEOUT_S = 5.0

TRACKER_MAGIC = 0x2F271
TRACKER_SUMMARY = 6
TRACKER_SUCCESS = 0
"""TVM's tracker protocol (python/tvm/rpc/base.py): the magic number both ways, then length-prefixed JSON."""
LARGEST_MESSAGE = 1 << 24


def opencl(library: str | None = None) -> list[Check]:
    """The OpenCL loader and the devices behind it."""
    path = library or ctypes.util.find_library("OpenCL")
    if path is None:
        hint = "apt-get install ocl-icd-libopencl1, and the driver of your device (pocl-opencl-icd for a CPU)"
        return [Check(GROUP, "OpenCL", "missing", "no loader (libOpenCL.so)", hint)]
    code, output = output_of(python_command("-m", "tvmake.doctor.opencl_probe", path), OPENCL_TIMEOUT_S)
    if code:
        return [
            Check(
                GROUP,
                "OpenCL",
                "problem",
                f"{path}: {ending(code, output)}",
                "see whether `clinfo` works; reinstall the device's driver",
            )
        ]
    platforms = json.loads(output.splitlines()[-1])
    devices = [(platform, device) for platform in platforms for device in platform["devices"]]
    if not devices:
        hint = "install the driver of your device (pocl-opencl-icd for a CPU)"
        return [Check(GROUP, "OpenCL", "missing", f"{path} knows {len(platforms)} platforms and no device", hint)]
    return [_opencl_device(platform, device) for platform, device in devices]


def _opencl_device(platform: Mapping[str, Any], device: Mapping[str, Any]) -> Check:
    can = [f"{'' if device[key] else 'no '}{what}" for key, what in (("float16", "float16"), ("images", "images"))]
    detail = f"{device['name']} ({device['type']}, {platform['name']}, driver {device['driver']}): {', '.join(can)}"
    return Check(GROUP, "OpenCL", "ok", detail)


def adb() -> list[Check]:
    """The Android debug bridge and the devices it sees."""
    if shutil.which("adb") is None:
        return [Check(GROUP, "adb", "missing", "not installed (reaches Android devices)", "apt-get install adb")]
    code, output = output_of(["adb", "devices", "-l"], ADB_TIMEOUT_S)
    if code:
        return [Check(GROUP, "adb", "problem", ending(code, output), "restart it: adb kill-server; adb start-server")]
    return adb_devices(output)


def adb_devices(listing: str) -> list[Check]:
    """One check for each device in the output of ``adb devices -l``."""
    checks = []
    for line in listing.splitlines():
        serial, _, rest = line.partition(" ")
        state, _, details = rest.strip().partition(" ")
        if not serial or not state or line.startswith(("*", "List of")):
            continue
        if state == "device":
            checks.append(Check(GROUP, f"adb {serial}", "ok", details.strip()))
        else:
            hint = "accept the key on the device's screen" if state == "unauthorized" else "reconnect it: adb reconnect"
            checks.append(Check(GROUP, f"adb {serial}", "problem", state, hint))
    if not checks:
        hint = "connect one and allow USB debugging (Developer options)"
        return [Check(GROUP, "adb", "missing", "installed, no device connected", hint)]
    return checks


def tracker(environment: Mapping[str, str] = os.environ) -> Check:
    """TVM's RPC tracker, at TVM_TRACKER_HOST and TVM_TRACKER_PORT."""
    host, port = environment.get("TVM_TRACKER_HOST"), environment.get("TVM_TRACKER_PORT")
    if not host or not port:
        hint = "for devices over RPC: `tvmake device tracker`, then set TVM_TRACKER_HOST and TVM_TRACKER_PORT"
        return Check(GROUP, "RPC tracker", "missing", "TVM_TRACKER_HOST and TVM_TRACKER_PORT are not set", hint)
    where = f"{host}:{port}"
    hint = f"start it: tvmake device tracker --port {port}"
    if not port.isdigit() or not 0 < int(port) < 65536:
        return Check(
            GROUP,
            "RPC tracker",
            "problem",
            f"{where}: the port is not a number from 1 to 65535",
            "set TVM_TRACKER_PORT",
        )
    try:
        servers = _tracker_servers(host, int(port))
    except (OSError, ValueError, struct.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return Check(GROUP, "RPC tracker", "problem", f"{where}: {reason}", hint)
    listed = ", ".join(f"{key}: {count}" for key, count in sorted(servers.items())) or "none"
    return Check(GROUP, "RPC tracker", "ok", f"{where}; servers {listed}")


def _tracker_servers(host: str, port: int) -> dict[str, int]:
    """The number of servers of each device key at a tracker.

    Raises:
        OSError: there is no answer.
        ValueError: the answer is not a tracker's.
    """
    with socket.create_connection((host, port), timeout=TRACKER_TIMEOUT_S) as connection:
        connection.sendall(struct.pack("<i", TRACKER_MAGIC))
        if struct.unpack("<i", _receive(connection, 4))[0] != TRACKER_MAGIC:
            raise ValueError("the program at this address is not a TVM RPC tracker")
        question = json.dumps([TRACKER_SUMMARY]).encode()
        connection.sendall(struct.pack("<i", len(question)) + question)
        size = struct.unpack("<i", _receive(connection, 4))[0]
        if not 0 < size <= LARGEST_MESSAGE:
            raise ValueError("the program at this address is not a TVM RPC tracker")
        message = json.loads(_receive(connection, size))
    if not isinstance(message, list) or len(message) != 2 or not isinstance(message[1], dict):
        raise ValueError("the program at this address is not a TVM RPC tracker")
    if message[0] != TRACKER_SUCCESS:
        raise ValueError("the tracker refuses to send a summary")
    servers: dict[str, int] = {}
    for server in message[1].get("server_info", []):
        key = str(server.get("key", "")).partition(":")[2]
        servers[key] = servers.get(key, 0) + 1
    return servers


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(min(size - len(data), 1 << 16))
        if not part:
            raise ConnectionError("the program at this address is not a TVM RPC tracker: it closed the connection")
        data += part
    return data
