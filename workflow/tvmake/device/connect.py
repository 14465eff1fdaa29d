"""From a device's config to the device."""

from tvmake.config.device import DeviceConfig
from tvmake.device.interface import Device
from tvmake.device.local import LocalDevice
from tvmake.device.rpc import RPCDevice


def connect(name: str, config: DeviceConfig) -> Device:
    """The device a config names."""
    match config.via:
        case "local":
            return LocalDevice(name, config)
        case "rpc":
            return RPCDevice(name, config)
