"""Push a package to every device of a config."""

from pathlib import Path

from tvmake.config.device import DeviceConfig, RpcDeviceConfig
from tvmake.device.connect import connect
from tvmake.device.sharing.group import Group
from tvmake.errors import DeviceError


def push_everywhere(
    name: str, config: DeviceConfig, package: Path
) -> tuple[list[dict[str, object]], list[DeviceError]]:
    """Push a package; returns a row per device with ``location``, ``sent_bytes`` and ``size_bytes``, and errors.

    Raises:
        InputError: the package is damaged.
        DeviceError: the only device cannot be reached.
    """
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
            rows.append(
                {
                    "device": member,
                    "location": deployment.location,
                    "sent_bytes": sent,
                    "size_bytes": deployment.size_bytes,
                }
            )
    return rows, errors
