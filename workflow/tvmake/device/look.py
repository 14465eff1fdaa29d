"""A device's temperatures and governor, for people to look at."""

from tvmake.config.device import DeviceConfig
from tvmake.device.conditioning import Files, observe
from tvmake.device.conditioning_files import LocalFiles, ShellFiles


def look(name: str, config: DeviceConfig) -> dict[str, str]:
    """What is seen, by name; nothing over RPC, whose servers list no files.

    Raises:
        DeviceError: the device cannot be reached.
    """
    if config.via == "rpc":
        return {}
    sensors = config.conditioning.sensors if config.conditioning else []
    if config.via == "local":
        return _seen(LocalFiles(f"device '{name}'"), sensors)
    from tvmake.device.shell_devices import shell_devices

    with shell_devices(name, config)[0].shell() as shell:
        return _seen(ShellFiles(shell), sensors)


def _seen(files: Files, sensors: list[str]) -> dict[str, str]:
    state = observe(files, sensors)
    seen = {f"temperature {sensor}": f"{value:.1f} °C" for sensor, value in sorted(state.temperatures_c.items())}
    seen |= {"slowed by heat": ", ".join(state.limited)} if state.limited else {}
    return seen or {"temperature": "no sensor that may be read"}
