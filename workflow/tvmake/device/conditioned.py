"""A device that is conditioned before each measurement, with what was seen before and after among its conditions."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tvmake.config.device import Conditioning
from tvmake.device.conditioning import Files, observe, prepare, restore, told
from tvmake.device.conditioning_files import LocalFiles, ShellFiles
from tvmake.device.group import Group
from tvmake.device.interface import Deployment, Device, Fingerprint, RunRequest, RunResult
from tvmake.device.local import LocalDevice
from tvmake.device.shell_device import ShellDevice


class Conditioned:
    """Another device, conditioned; runs that measure nothing go through as they are."""

    def __init__(self, device: Device, how: Conditioning):
        self.name = device.name
        self._device = device
        self._how = how

    def push(self, package: Path) -> Deployment:
        """See :class:`tvmake.device.interface.Device`."""
        return self._device.push(package)

    def fingerprint(self, kind: str = "cpu") -> Fingerprint:
        """See :class:`tvmake.device.interface.Device`."""
        return self._device.fingerprint(kind)

    def alone(self) -> AbstractContextManager[None]:
        """See :class:`tvmake.device.interface.Device`."""
        return self._device.alone()

    def execute(self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None) -> RunResult:
        """See :class:`tvmake.device.interface.Device`.

        Raises:
            DeviceError: it stays too hot, or governor or clocks cannot be set; or as without conditioning.
        """
        device = self._device
        if request.measurement is None:
            return device.execute(deployment, request, inputs, outputs)
        if isinstance(device, Group):
            # Which of several devices it is, is known only once it is free.
            return device.run_on_one(lambda member: self._on_member(member, deployment, request, inputs, outputs))
        if isinstance(device, LocalDevice):
            with _conditioned(LocalFiles(f"device '{self.name}'"), self._how) as notes:
                result = device.execute(deployment, request, inputs, outputs)
            return with_conditions(result, notes)
        time.sleep(self._how.pause_s)
        result = device.execute(deployment, request, inputs, outputs)
        return with_conditions(result, {"paused_s": f"{self._how.pause_s:g}", "throttled": "not known"})

    def _on_member(
        self, member: ShellDevice, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None
    ) -> RunResult:
        with member.shell() as shell, _conditioned(ShellFiles(shell), self._how) as notes:
            result = member.execute(deployment, request, inputs, outputs)
        return with_conditions(result, notes)


@contextmanager
def _conditioned(files: Files, how: Conditioning) -> Iterator[dict[str, str]]:
    """Condition for a block; the dictionary is filled when it ends."""
    notes: dict[str, str] = {}
    done = prepare(files, how)
    try:
        yield notes
        notes.update(told(done, observe(files, how.sensors)))
    finally:
        restore(files, done)


def with_conditions(result: RunResult, notes: dict[str, str]) -> RunResult:
    """A result with more conditions."""
    conditions = {**result.timing.conditions, **notes}
    return result.model_copy(update={"timing": result.timing.model_copy(update={"conditions": conditions})})
