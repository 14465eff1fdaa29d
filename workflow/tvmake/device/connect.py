"""Create devices from their config."""

from tvmake.config.device import DeviceConfig, LocalDeviceConfig, RpcDeviceConfig
from tvmake.device.interface import Device


def connect(name: str, config: DeviceConfig) -> Device:
    """The device of a config, with conditioning before each measurement if the config asks for it."""
    device = _connect(name, config)
    if config.conditioning is None or isinstance(config, LocalDeviceConfig):  # a local device conditions itself
        return device
    from tvmake.device.conditioning.conditioned import Conditioned

    return Conditioned(device, config.conditioning)


def _connect(name: str, config: DeviceConfig) -> Device:
    # Transports are imported when used: asyncssh alone takes 0.2 s.
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
