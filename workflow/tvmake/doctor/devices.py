"""Devices within reach: OpenCL, Android over adb, and TVM's RPC tracker."""

import ctypes.util
import json
import os
import shutil
from collections.abc import Mapping
from typing import Any

from tvmake.config.device import split_address
from tvmake.device.rpc.tracker import Tracker
from tvmake.doctor.check import Check, ending, output_of
from tvmake.errors import DeviceError
from tvmake.process.python import python_command

GROUP = "devices"
OPENCL_TIMEOUT_S = 30.0
ADB_TIMEOUT_S = 15.0


def opencl(library: str | None = None) -> list[Check]:
    """The OpenCL loader and the devices behind it."""
    path = library or ctypes.util.find_library("OpenCL")
    if path is None:
        hint = "apt-get install ocl-icd-libopencl1, and the driver of your device (pocl-opencl-icd for a CPU)"
        return [Check(GROUP, "OpenCL", "missing", "no loader (libOpenCL.so)", hint)]
    code, output = output_of(python_command("-m", "tvmake.doctor.opencl_probe", path), OPENCL_TIMEOUT_S)
    if code:
        hint = "see whether `clinfo` works; reinstall the device's driver"
        return [Check(GROUP, "OpenCL", "problem", f"{path}: {ending(code, output)}", hint)]
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
    try:
        table = Tracker(*split_address(f"{host}:{port}"), "").waiting()
    except ValueError:
        problem = f"{host}:{port}: the port is not a number from 1 to 65535"
        return Check(GROUP, "RPC tracker", "problem", problem, "set TVM_TRACKER_PORT")
    except DeviceError as error:
        return Check(GROUP, "RPC tracker", "problem", error.problem, error.remedy or "")
    servers = ", ".join(f"{key}: {counts['total']}" for key, counts in table.items() if counts["total"]) or "none"
    return Check(GROUP, "RPC tracker", "ok", f"{host}:{port}; servers {servers}")
