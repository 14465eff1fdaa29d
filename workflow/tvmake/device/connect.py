"""From a device's config to the device."""

from tvmake.config.device import DeviceConfig
from tvmake.device.interface import Device


def connect(name: str, config: DeviceConfig) -> Device:
    """The device a config names, conditioned before each measurement where the config says so."""
    device = _reached(name, config)
    if config.conditioning is None or config.via == "local":  # which does it by itself
        return device
    from tvmake.device.conditioned import Conditioned

    return Conditioned(device, config.conditioning)


def _reached(name: str, config: DeviceConfig) -> Device:
    # Each transport is imported when it is used: asyncssh alone takes 0.2 s.
    match config.via:
        case "local":
            from tvmake.device.local import LocalDevice

            return LocalDevice(name, config)
        case "rpc":
            from tvmake.device.rpc import RPCDevice

            return RPCDevice(name, config)
        case "ssh" | "adb":
            from tvmake.device.group import Group
            from tvmake.device.shell_devices import shell_devices

            return Group(name, config, shell_devices(name, config))
