"""From a device's config to the device."""

from tvmake.config.device import DeviceConfig, LocalDeviceConfig, RpcDeviceConfig
from tvmake.device.interface import Device


def connect(name: str, config: DeviceConfig) -> Device:
    """The device a config names, conditioned before each measurement where the config says so."""
    device = _reached(name, config)
    if config.conditioning is None or isinstance(config, LocalDeviceConfig):  # which does it by itself
        return device
    from tvmake.device.conditioning.conditioned import Conditioned

    return Conditioned(device, config.conditioning)


def _reached(name: str, config: DeviceConfig) -> Device:
    # Each transport is imported when it is used: asyncssh alone takes 0.2 s.
    match config:
        case LocalDeviceConfig():
            from tvmake.device.local.device import LocalDevice

            return LocalDevice(name, config)
        case RpcDeviceConfig():
            from tvmake.device.rpc.device import RPCDevice

            return RPCDevice(name, config)
        case _:
            from tvmake.device.sharing.group import Group
            from tvmake.device.transport.shell_devices import shell_devices

            return Group(name, config, shell_devices(name, config))
