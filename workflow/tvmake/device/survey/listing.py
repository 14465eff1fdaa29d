"""List the devices known to the config, adb and the tracker."""

import os
from collections.abc import Mapping

from tvmake.config.device import (
    AdbDeviceConfig,
    DeviceConfig,
    LocalDeviceConfig,
    RpcDeviceConfig,
    SshDeviceConfig,
    split_address,
)
from tvmake.device.rpc.tracker import VARIABLES, Tracker
from tvmake.device.sharing.health import health
from tvmake.errors import TvmakeError, UsageError

DEFAULT_TRACKER = "127.0.0.1:9190"
"""The default address of TVM's tracker."""

NOBODY = ""
"""A stand-in serial number for a device whose config names none, and for errors of adb itself."""

Row = dict[str, object]


def list_devices(devices: Mapping[str, DeviceConfig], tracker: str | None = None) -> list[Row]:
    """One row per device: those of the config first, then others known to adb and the tracker.

    Args:
        tracker: its address; the environment's when None.

    Raises:
        UsageError: the address is not device.
        DeviceError: no tracker answers at the address that is given.
    """
    android = _android(devices)
    rows = [_row("local", "local", "this machine", "here")] if "local" not in devices else []
    for name, config in devices.items():
        match config:
            case LocalDeviceConfig():
                rows.append(_row(name, "local", "this machine", "here"))
            case RpcDeviceConfig():
                rows.append(_behind_tracker(name, config))
            case SshDeviceConfig():
                rows += [_row(name, "ssh", host, *_health("ssh", host)) for host in config.host]
            case AdbDeviceConfig():
                rows += _over_adb(name, config, android)
    over_adb = [config for config in devices.values() if isinstance(config, AdbDeviceConfig)]
    named = {serial for config in over_adb for serial in config.serial or (NOBODY,)}
    rows += [row for serial, row in android.items() if serial not in named]
    return rows + _other_keys(devices, tracker)


def tracker_address(text: str | None) -> tuple[str, int]:
    """The address in ``text``, else in the environment, else TVM's default.

    Raises:
        UsageError: it is not an address.
    """
    environment = [os.environ.get(variable, "") for variable in VARIABLES]
    address = text or (":".join(environment) if any(environment) else DEFAULT_TRACKER)
    try:
        return split_address(address)
    except ValueError as error:
        where = "--tracker" if text else " and ".join(VARIABLES)
        raise UsageError(where, str(error), f"the default address of a tracker is {DEFAULT_TRACKER}") from None


def _row(device: str, via: str, address: str, state: str, details: str = "") -> Row:
    return {"device": device, "via": via, "address": address, "state": state, "details": details}


def _behind_tracker(name: str, config: RpcDeviceConfig) -> Row:
    try:
        tracker = Tracker.of(name, config)
        numbers = tracker.waiting().get(tracker.key, {"total": 0, "free": 0, "pending": 0})
    except TvmakeError as error:
        return _row(name, "rpc", f"{config.key} at {config.tracker or 'no tracker'}", "unreachable", error.problem)
    return _row(name, "rpc", f"{tracker.key} at {tracker}", *_servers(numbers))


def _servers(numbers: Mapping[str, int]) -> tuple[str, str]:
    """The state and the details of a tracker's key."""
    state = f"{numbers['free']} of {numbers['total']} free" if numbers["total"] else "no server"
    return state, f"{numbers['pending']} waiting" if numbers["pending"] else ""


def _health(via: str, member: str) -> tuple[str, str]:
    known = health(f"{via}-{member}")
    if known.is_set_aside:
        return "set aside", f"{known.failures} failures, the last: {known.why}"
    if known.failures:
        return "failed lately", known.why
    return "not asked", "`tvmake doctor` tries it"


def _over_adb(name: str, config: AdbDeviceConfig, android: Mapping[str, Row]) -> list[Row]:
    serials = config.serial or [os.environ.get("ANDROID_SERIAL", NOBODY)]
    if serials == [NOBODY] and NOBODY not in android:
        if not android:
            return [_row(name, "adb", "(no serial)", "not connected", "adb lists no device: allow USB debugging on it")]
        if len(android) != 1:
            return [_row(name, "adb", "(no serial)", f"{len(android)} devices", "set its serial, or ANDROID_SERIAL")]
        serials = list(android)
    rows = []
    for serial in serials:
        seen = android.get(serial)
        state, details = (str(seen["state"]), str(seen["details"])) if seen else ("not connected", "")
        rows.append(_row(name, "adb", serial or "(no serial)", state, details))
    return rows


def _android(devices: Mapping[str, DeviceConfig]) -> dict[str, Row]:
    """adb's devices, by serial; empty if adb is not installed."""
    import shutil

    uses_adb = any(isinstance(config, AdbDeviceConfig) for config in devices.values())
    if shutil.which("adb") is None and not uses_adb:
        return {}
    from tvmake.device.transport.adb import list_adb_devices as seen_by_adb

    try:
        devices_seen = seen_by_adb()
    except TvmakeError as error:
        return {NOBODY: _row("", "adb", "", "unreachable", error.problem)} if uses_adb else {}
    return {
        device.serial: _row(
            "",
            "adb",
            device.serial,
            device.state if device.state != "device" else "connected",
            device.facts.get("model", ""),
        )
        for device in devices_seen
    }


def _other_keys(devices: Mapping[str, DeviceConfig], tracker: str | None) -> list[Row]:
    """Keys at a tracker that no device of the config has.

    Args:
        tracker: its address; the environment's when None.

    Raises:
        UsageError: the address is not device.
        DeviceError: no tracker answers at the address that is given.
    """
    if tracker is None and not any(os.environ.get(variable) for variable in VARIABLES):
        return []
    try:
        host, port = tracker_address(tracker)
        table = Tracker(host, port, "", where="tracker").waiting()
    except TvmakeError as error:
        if tracker is not None:
            raise
        return [_row("", "rpc", "the environment's tracker", "unreachable", error.problem)]
    known = {config.key for config in devices.values() if isinstance(config, RpcDeviceConfig)}
    return [
        _row("", "rpc", f"{key} at {host}:{port}", *_servers(numbers))
        for key, numbers in table.items()
        if key not in known and numbers["total"]
    ]
