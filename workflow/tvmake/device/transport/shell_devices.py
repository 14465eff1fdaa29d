"""The devices of a config with a shell."""

from tvmake.config.device import ShellDeviceConfig, SshDeviceConfig
from tvmake.device.transport.shell_device import ShellDevice


def shell_devices(name: str, config: ShellDeviceConfig) -> list[ShellDevice]:
    """One device for each host or serial number."""
    if isinstance(config, SshDeviceConfig):
        from tvmake.device.transport.ssh import ssh_devices

        return ssh_devices(name, config)
    from tvmake.device.transport.adb import adb_devices

    return adb_devices(name, config)
