"""Environment variables for TVM's own tools, adb and the NDK."""

import os
import shlex
from collections.abc import Mapping

from tvmake.config.device import AdbDeviceConfig, DeviceConfig, RpcDeviceConfig, split_address
from tvmake.device.survey.listing import tracker_address
from tvmake.native.ndk import find_ndk


def exports(chosen: DeviceConfig | None, devices: Mapping[str, DeviceConfig]) -> list[str]:
    """Shell lines: the tracker, the Android device, the NDK.

    Args:
        chosen: the device meant; when None, the first of the config that names a tracker or serial counts.
    """
    meant = [chosen] if chosen else list(devices.values())
    over_rpc = [config for config in meant if isinstance(config, RpcDeviceConfig)]
    tracker = next((config.tracker for config in over_rpc if config.tracker), None)
    host, port = split_address(tracker) if tracker else tracker_address(None)
    values = {"TVM_TRACKER_HOST": host, "TVM_TRACKER_PORT": str(port)}
    if over_rpc:
        values["TVM_RPC_KEY"] = over_rpc[0].key
    serials = [config.serial[0] for config in meant if isinstance(config, AdbDeviceConfig) and config.serial]
    serial = serials[0] if serials else os.environ.get("ANDROID_SERIAL")
    if serial:
        values["ANDROID_SERIAL"] = serial
    if ndk := find_ndk():
        values["ANDROID_NDK_HOME"] = str(ndk[0])
    return [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
