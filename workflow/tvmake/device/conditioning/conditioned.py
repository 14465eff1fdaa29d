"""A device that is conditioned before each measurement; its state before and after is part of the conditions."""

import time
from contextlib import AbstractContextManager
from pathlib import Path

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.config.device import Conditioning, DeviceConfig, LocalDeviceConfig, RpcDeviceConfig
from tvmake.device.conditioning.controls import Files, condition, observe, with_conditions
from tvmake.device.conditioning.files import LocalFiles, ShellFiles
from tvmake.device.interface import Deployment, Device, RunRequest, RunResult
from tvmake.device.sharing.group import Group
from tvmake.device.transport.shell_device import ShellDevice


class Conditioned:
    """A remote device with conditioning; runs without a measurement are passed on."""

    def __init__(self, device: Device, conditioning: Conditioning):
        self.name = device.name
        self._device = device
        self._conditioning = conditioning

    def push(self, package: Path) -> Deployment:
        return self._device.push(package)

    def fingerprint(self, kind: str = "cpu") -> Fingerprint:
        return self._device.fingerprint(kind)

    def exclusive(self) -> AbstractContextManager[None]:
        return self._device.exclusive()

    def execute(self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None) -> RunResult:
        """See :class:`tvmake.device.interface.Device`.

        Raises:
            DeviceError: it stays too hot, governor or clocks cannot be set; or as without conditioning.
        """
        device = self._device
        if request.measurement is None:
            return device.execute(deployment, request, inputs, outputs)
        if isinstance(device, Group):
            # In a group, the device is known only after one is free.
            return device.run_on_free_member(
                lambda member: self._on_member(member, deployment, request, inputs, outputs)
            )
        time.sleep(self._conditioning.pause_s)
        result = device.execute(deployment, request, inputs, outputs)
        return with_conditions(result, {"paused_s": f"{self._conditioning.pause_s:g}", "throttled": "not known"})

    def _on_member(
        self, member: ShellDevice, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None
    ) -> RunResult:
        with member.shell() as shell, condition(ShellFiles(shell), self._conditioning) as notes:
            result = member.execute(deployment, request, inputs, outputs)
        return with_conditions(result, notes)


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
