"""The devices of a config that are reached through a shell."""

from tvmake.config.device import DeviceConfig
from tvmake.device.shell_device import ShellDevice


def shell_devices(name: str, config: DeviceConfig) -> list[ShellDevice]:
    """One for each host or serial number."""
    if config.via == "ssh":
        from tvmake.device.ssh import ssh_devices

        return ssh_devices(name, config)
    from tvmake.device.adb import adb_devices

    return adb_devices(name, config)
