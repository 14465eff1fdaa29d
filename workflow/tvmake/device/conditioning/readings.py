"""A device's temperatures and governor, for people."""

from tvmake.config.device import DeviceConfig, LocalDeviceConfig, RpcDeviceConfig
from tvmake.device.conditioning.controls import Files, observe
from tvmake.device.conditioning.files import LocalFiles, ShellFiles


def readings(name: str, config: DeviceConfig) -> dict[str, str]:
    """Temperatures and limits by name; empty over RPC, whose servers do not list files.

    Raises:
        DeviceError: the device cannot be reached.
    """
    if isinstance(config, RpcDeviceConfig):
        return {}
    sensors = config.conditioning.sensors if config.conditioning else []
    if isinstance(config, LocalDeviceConfig):
        return _readings(LocalFiles(f"device '{name}'"), sensors)
    from tvmake.device.transport.shell_devices import shell_devices

    with shell_devices(name, config)[0].shell() as shell:
        return _readings(ShellFiles(shell), sensors)


def _readings(files: Files, sensors: list[str]) -> dict[str, str]:
    state = observe(files, sensors)
    values = {f"temperature {sensor}": f"{value:.1f} °C" for sensor, value in sorted(state.temperatures_c.items())}
    values |= {"slowed by heat": ", ".join(state.limited)} if state.limited else {}
    return values or {"temperature": "no readable sensor"}
