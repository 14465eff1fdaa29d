"""Keep a server running on a device behind a shell, and provide time slots on that device."""

import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from tvmake.device.conditioning.files import ShellFiles
from tvmake.device.sharing.group import BusyNotice, device_id, lease_of, note_failure
from tvmake.device.sharing.health import FAILURES, clear_failures
from tvmake.device.sharing.lease import try_port
from tvmake.device.time_slots import Conditioner, exclusive
from tvmake.device.transport.programs import SERVE, install
from tvmake.device.transport.shell import DOCTOR_HINT, Shell, Started, Unreachable, command_line
from tvmake.device.transport.shell_device import ShellDevice
from tvmake.errors import DeviceError, MachineError
from tvmake.process.supervised import last_line

STEADY_S = 60.0
"""A server that ran this long had started well: its end counts as a first failure."""

PAUSE_S = 1.0
"""The delay before a restart; it doubles each time."""

LOGGED = 60
"""Lines of an ended server's output for this process's log."""

PORTS = range(20_000, 32_000)
"""Below the ports that systems assign themselves. Each device has a fixed offset in it, so that the next process takes over a
tunnel that adb kept from a killed one."""

PORT_TRIES = 5
"""How many ports to try that no other process of tvmake uses."""

POLL_S = 0.3
"""The interval of checks whether a server has ended or must end."""


class ServerSupervisor(threading.Thread):
    """Keeps a server running on one device.

    Args:
        tracker_port: the port of the tracker on this machine where the server registers.
        others: the number of devices that continue if this one fails.
        over: an event that ends the thread.
        is_shared: whether other processes use the device, in slots; otherwise the caller holds its lease.
        on_set_aside: called with one line when the device is set aside.
    """

    def __init__(
        self,
        member: ShellDevice,
        tracker_port: int,
        key: str,
        others: int,
        over: threading.Event,
        with_opencl: bool,
        is_shared: bool,
        on_set_aside: Callable[[str], None],
    ):
        super().__init__(name=f"serving-{member.member}", daemon=True)
        self.error: Exception | None = None
        self._member = member
        self._tracker_port = tracker_port
        self._key = key
        self._others = others
        self._over = over
        self._with_opencl = with_opencl
        self._is_shared = is_shared
        self._on_set_aside = on_set_aside
        self._attempt = 0
        self._conditioner: Conditioner | None = None
        self.port = 0
        """The running server's port, on both sides of its tunnel; 0 without a server."""
        self.is_waiting = False
        """Set when the device is free, so that a server can be started."""

    @contextmanager
    def slot(self, rest: bool, is_over: Callable[[], bool]) -> Iterator[dict[str, str]]:
        with exclusive(lease_of(self._member), is_over, BusyNotice(self._member.where).report):
            conditioner = self._conditioner
            if conditioner is None:
                raise Unreachable(self._member.where, "its server has ended", DOCTOR_HINT)
            with conditioner.condition(rest, is_over) as notes:
                yield notes

    def run(self) -> None:
        failures, pause = 0, PAUSE_S
        while not self._over.is_set():
            began = time.monotonic()
            try:
                self._serve()
            except Unreachable as error:
                self.error = error
            except Exception as error:  # noqa: BLE001  # raised again where servers are awaited
                self.error = error
                return
            if self._over.is_set():
                return
            self._attempt += 1
            failures = 1 if time.monotonic() - began > STEADY_S else failures + 1
            assert isinstance(self.error, Unreachable)
            is_set_aside = note_failure(self._member, self.error, self._others)
            line = f"{self._member.where}: set aside after {max(failures, FAILURES)} failures ({self.error.problem})"
            if is_set_aside or failures >= FAILURES:
                self._on_set_aside(line)
            if failures >= FAILURES:
                print(f"warning: {line}", file=sys.stderr)
                return
            self._over.wait(pause)
            pause *= 2

    def _serve(self) -> None:
        with self._member.shell() as shell, ExitStack() as stack:
            with self._exclusive_start():
                started = self._start(shell, stack)
            # This ends before the server, and its shell, do.
            stack.callback(self._end_turns)
            self._watch(started)

    @contextmanager
    def _exclusive_start(self) -> Iterator[None]:
        """Hold the device's lease: uploading programs disturbs measurements."""
        if not self._is_shared:
            yield
            return
        self.is_waiting = True
        with exclusive(lease_of(self._member), self._over.is_set):
            self.is_waiting = False
            yield

    def _start(self, shell: Shell, stack: ExitStack) -> Started:
        member = self._member
        known = member.facts(shell)
        programs = install(shell, member.config, known, member.name, member.is_android, self._with_opencl)
        port = self._forward(shell, stack)
        tracker = shell.reverse(self._tracker_port)
        work = f"{known.directory}/serving"
        shell.run(command_line(["mkdir", "-p", work]))
        command = [*programs.command(SERVE, member.config), "--workdir", work, "--key", self._key]
        command += ["--host", shell.loopback, "--port", str(port), "--tracker", f"{shell.loopback}:{tracker}"]
        if not self._is_shared:  # tuning sends no file twice
            command += ["--cache", f"{known.directory}/uploads"]
        conditioner = Conditioner(ShellFiles(shell), member.config.conditioning)
        if not self._is_shared and member.config.conditioning is not None:
            # The server's users are unknown here: settings stay while it runs, and those who time kernels rest.
            stack.callback(conditioner.restore)
            with conditioner.condition(False, self._over.is_set):
                pass
        started = shell.start(f"exec {command_line(command)}")
        stack.callback(started.stop)
        self._conditioner, self.port = conditioner, port
        return started

    def _end_turns(self) -> None:
        conditioner, self._conditioner, self.port = self._conditioner, None, 0
        if conditioner is not None and self._is_shared and conditioner.has_set:
            with exclusive(lease_of(self._member)):
                conditioner.restore()

    def _watch(self, started: Started) -> None:
        began = time.monotonic()
        steady = False
        while not self._over.is_set():
            finished = started.wait(POLL_S)
            if finished is not None:
                for line in started.output().splitlines()[-LOGGED:]:
                    print(f"{self._member.member}: {line}", file=sys.stderr)
                errors = [line for line in finished.errors.splitlines() if line.startswith("error: ")]
                reason = last_line("\n".join(errors)) or last_line(finished.errors) or last_line(finished.output)
                reason = reason.removeprefix("error: ") or "no message"
                self.error = Unreachable(
                    self._member.where,
                    f"its server ended with code {finished.code} ({reason})",
                    f"`tvmake doctor {self._member.name}` tries each step by itself",
                )
                return
            if not steady and time.monotonic() - began > STEADY_S:
                steady = True
                clear_failures(device_id(self._member))

    def _forward(self, shell: Shell, stack: ExitStack) -> int:
        """A port for the tunnel that neither another process nor the last server on the device has used."""
        first = zlib.crc32(device_id(self._member).encode()) + 97 * self._attempt
        tries = 0
        for attempt in range(len(PORTS) // 97):
            port = PORTS[(first + 97 * attempt) % len(PORTS)]
            lock = try_port(port)
            if lock is None:
                continue
            try:
                shell.forward(port)
            except Unreachable:
                lock.release()
                raise
            except DeviceError:
                lock.release()
                tries += 1
                if tries == PORT_TRIES:
                    raise
                continue
            stack.callback(lock.release)
            return port
        raise MachineError(self._member.where, "all ports for tunnels are taken", "end some jobs")
