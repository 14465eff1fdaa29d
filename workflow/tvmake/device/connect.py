"""Create devices from their config, and push packages to them."""

from pathlib import Path

from tvmake.config.device import DeviceConfig, LocalDeviceConfig, RpcDeviceConfig
from tvmake.device.interface import Device
from tvmake.errors import DeviceError


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


def push_everywhere(
    name: str, config: DeviceConfig, package: Path
) -> tuple[list[dict[str, object]], list[DeviceError]]:
    """Push a package; returns a row per device with ``location``, ``sent_bytes`` and ``size_bytes``, and errors.

    Raises:
        InputError: the package is damaged.
        DeviceError: the only device cannot be reached.
    """
    from tvmake.device.sharing.group import Group

    device = connect(name, config.model_copy(update={"conditioning": None}))
    if not isinstance(device, Group):
        deployment = device.push(package)
        row = {"device": name, "location": deployment.location, "size_bytes": deployment.size_bytes}
        return [row | {"sent_bytes": 0 if isinstance(config, RpcDeviceConfig) else deployment.size_bytes}], []
    rows: list[dict[str, object]] = []
    errors: list[DeviceError] = []
    for member, outcome in device.push_everywhere(package).items():
        if isinstance(outcome, DeviceError):
            errors.append(outcome)
        else:
            deployment, sent = outcome
            sizes = {"sent_bytes": sent, "size_bytes": deployment.size_bytes}
            rows.append({"device": member, "location": deployment.location, **sizes})
    return rows, errors
