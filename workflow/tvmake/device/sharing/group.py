"""Several equal devices as one: a free one serves each request alone, and a failing one is replaced."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.config.device import ShellDeviceConfig
from tvmake.device.interface import Deployment, RunRequest, RunResult
from tvmake.device.sharing.health import clear_failures, file_name, health, record_failure
from tvmake.device.sharing.lease import lease_file, take
from tvmake.device.transport.shell import Unreachable
from tvmake.device.transport.shell_device import ShellDevice
from tvmake.errors import DeviceError, TvmakeError

SOON_S = 3.0
"""How long to wait for a device without a message: timing a candidate of another job takes less."""

Result = TypeVar("Result")


class Group:
    """A :class:`tvmake.device.interface.Device` of one or more equal devices behind a shell.

    Runs and pushes hold their device's lease, so no measurement is disturbed. An unreachable device is skipped, and set aside
    after several failures in a row; results report that.
    """

    def __init__(self, name: str, config: ShellDeviceConfig, members: Sequence[ShellDevice]):
        self.name = name
        self.config = config
        self.members = list(members)
        self._held: ShellDevice | None = None

    def push(self, package: Path) -> Deployment:
        """See :class:`tvmake.device.interface.Device`: one device gets the package now, others when they need it."""
        return self.on_free_member(lambda member: member.push(package))

    def push_everywhere(self, package: Path) -> dict[str, tuple[Deployment, int] | DeviceError]:
        """Push to every device; returns the outcome by device name, with the bytes sent."""
        pushed: dict[str, tuple[Deployment, int] | DeviceError] = {}
        for member in self.members:
            try:
                with first_free([member], member.where):
                    pushed[member.member] = member.push_counted(package)
            except DeviceError as error:
                pushed[member.member] = error
        return pushed

    def fingerprint(self, kind: str = "cpu") -> Fingerprint:
        tried: list[ShellDevice] = []
        while True:  # without waiting for a device to become free
            member = self._untried_devices(tried)[0]
            try:
                fingerprint = member.fingerprint(kind)
            except Unreachable as error:
                self._note(member, error)
                tried.append(member)
                if not self._untried_devices(tried):
                    raise
            else:
                clear_failures(device_id(member))
                return fingerprint

    def execute(self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None) -> RunResult:
        return self.run_on_free_member(lambda member: member.execute(deployment, request, inputs, outputs))

    def run_on_free_member(self, work: Callable[[ShellDevice], RunResult]) -> RunResult:
        """Like :meth:`on_free_member`, for a run; its conditions name the devices that are set aside."""
        return self._with_set_aside(self.on_free_member(work))

    def on_free_member(self, work: Callable[[ShellDevice], Result]) -> Result:
        """Run ``work`` on a device that is free and reachable.

        Raises:
            DeviceError: the last device's error if none is left; any error other than an unreachable device.
        """
        tried: list[ShellDevice] = []
        while True:
            with self._free_member(tried) as member:
                try:
                    result = work(member)
                except Unreachable as error:
                    self._note(member, error)
                    tried.append(member)
                    if not self._untried_devices(tried):
                        raise
                    continue
                clear_failures(device_id(member))
            return result

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._free_member([]) as member:
            self._held = member
            try:
                yield
            finally:
                self._held = None

    def _with_set_aside(self, result: RunResult) -> RunResult:
        aside = [f"{member.member}: {health(device_id(member)).why}" for member in self.members if is_set_aside(member)]
        if not aside:
            return result
        conditions = {**result.timing.conditions, "set_aside": "; ".join(aside)}
        return result.model_copy(update={"timing": result.timing.model_copy(update={"conditions": conditions})})

    def _untried_devices(self, tried: Sequence[ShellDevice]) -> list[ShellDevice]:
        """Devices that were not tried; those that are set aside only if there is no other."""
        untried = [member for member in self.members if member not in tried]
        return [member for member in untried if not is_set_aside(member)] or untried

    @contextmanager
    def _free_member(self, tried: Sequence[ShellDevice]) -> Iterator[ShellDevice]:
        """A free device; the one whose lease is held already, while it is reachable."""
        if self._held is not None and self._held not in tried:
            yield self._held
            return
        with first_free(self._untried_devices(tried), f"device '{self.name}'") as member:
            yield member

    def _note(self, member: ShellDevice, error: DeviceError) -> None:
        note_failure(member, error, len(self.members) - 1)


def device_id(member: ShellDevice) -> str:
    """The identity for a device's lease and health: two names in configs may mean the same device."""
    return f"{member.config.via}-{member.address}"


def is_set_aside(member: ShellDevice) -> bool:
    """Whether it failed too often recently."""
    return health(device_id(member)).is_set_aside


def note_failure(member: ShellDevice, error: TvmakeError, others: int) -> bool:
    """Record that a device could not be reached, and report it if others continue.

    Returns:
        Whether it is set aside now.
    """
    now = record_failure(device_id(member), error.problem)
    if others:
        aside = "; set aside" if now.is_set_aside else "; another device is used"
        print(f"warning: {member.where}: {error.problem}{aside}", file=sys.stderr)
    return now.is_set_aside


@contextmanager
def first_free(members: Sequence[ShellDevice], where: str) -> Iterator[ShellDevice]:
    """Wait until one of these devices is free, and exclude others until the block ends.

    Raises:
        MachineError: a lock file cannot be written.
    """
    acquired = take([lease_of(member) for member in members], wait=BusyNotice(where).report)
    assert acquired is not None  # only a free device ends the wait
    number, lock = acquired
    try:
        yield members[number]
    finally:
        lock.release()


def lease_of(member: ShellDevice) -> Path:
    """The lease file of a device."""
    return lease_file(file_name(device_id(member)))


class BusyNotice:
    """Reports once that there is a wait for a busy device, unless it becomes free soon.

    Args:
        where: the device's name.
    """

    def __init__(self, where: str):
        self._where = where
        self._since = time.monotonic()
        self._is_reported = False

    def report(self) -> None:
        """Report a device that is still busy."""
        if not self._is_reported and time.monotonic() - self._since > SOON_S:
            print(f"{self._where}: busy; waiting", file=sys.stderr)
            self._is_reported = True
