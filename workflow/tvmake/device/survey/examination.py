"""Test every step on the way to a device."""

import socket
from collections.abc import Callable

from tvmake.config.device import DeviceConfig, LocalDeviceConfig, RpcDeviceConfig
from tvmake.device.conditioning.controls import observe
from tvmake.device.conditioning.files import ShellFiles
from tvmake.device.connect import connect
from tvmake.device.rpc.tracker import Tracker
from tvmake.device.sharing.group import device_id
from tvmake.device.sharing.health import clear_failures
from tvmake.device.transport.programs import RUN, install, start_error
from tvmake.device.transport.shell import DOCTOR_HINT, Shell, command_line
from tvmake.device.transport.shell_device import ShellDevice
from tvmake.device.transport.shell_devices import shell_devices
from tvmake.errors import DeviceError, TvmakeError
from tvmake.process.supervised import last_line

LITTLE_SPACE = 200 << 20
"""Bytes; packages of large networks need more."""

Step = dict[str, object]


def examine(name: str, config: DeviceConfig) -> list[Step]:
    """Test the steps; a failed step ends a device's row, because later steps need it."""
    steps: list[Step] = []
    if not isinstance(config, LocalDeviceConfig | RpcDeviceConfig):
        try:
            members = shell_devices(name, config)
        except TvmakeError as error:
            return [_problem("configuration", error)]
        for member in members:
            _shell_steps(member, steps)
        return steps
    if isinstance(config, RpcDeviceConfig):
        tracker = _try(steps, "tracker", lambda: Tracker.of(name, config))
        if tracker is None:
            return steps
        servers = _try(steps, "servers", tracker.servers, lambda found: f"{len(found)} with key '{tracker.key}'")
        if servers is None:
            return steps
    _try(
        steps,
        "session" if isinstance(config, RpcDeviceConfig) else "this machine",
        connect(name, config).fingerprint,
        lambda fingerprint: fingerprint.soc,
    )
    return steps


def _shell_steps(member: ShellDevice, steps: list[Step]) -> None:
    begin = f"{member.member}: " if member.member != member.name else ""
    step = "connection"
    try:
        with member.shell() as shell:
            steps.append(_ok(f"{begin}connection", f"over {member.config.via}"))
            step = "shell"
            known = member.facts(shell)
            free = f"{_space(known.free_bytes)} free in {known.directory}"
            if known.free_bytes is not None and known.free_bytes < LITTLE_SPACE:
                steps.append(
                    {"state": "warning", "step": f"{begin}space", "details": free, "remedy": "free some there"}
                )
            else:
                steps.append(_ok(f"{begin}space", free))
            fingerprint = known.fingerprint(member.config)
            steps.append(
                _ok(
                    f"{begin}device",
                    f"{fingerprint.soc}, {fingerprint.os}, {known.machine}, root: {fingerprint.details['root']}",
                )
            )
            first = len(steps)
            programs = _try(
                steps,
                f"{begin}programs",
                lambda: install(shell, member.config, known, member.name, member.is_android),
                lambda placed: f"{placed.sent_bytes} bytes sent" if placed.sent_bytes else "there already",
            )
            if programs:
                _try(steps, f"{begin}runner", lambda: _starts(shell, programs.command(RUN, member.config), member.name))
            _try(steps, f"{begin}tunnels", lambda: _test_tunnel(shell))
            state = observe(ShellFiles(shell), [])
            hottest = "{1:.1f} °C ({0})".format(*state.hottest) if state.hottest else "no sensor that may be read"
            slowed = f"; slowed down by heat: {', '.join(state.limited)}" if state.limited else ""
            status = "warning" if slowed else "ok"
            steps.append({"state": status, "step": f"{begin}temperature", "details": hottest + slowed, "remedy": ""})
            if all(step["state"] != "problem" for step in steps[first:]):
                clear_failures(device_id(member))
    except TvmakeError as error:
        steps.append(_problem(f"{begin}{step}", error))


def _space(count: int | None) -> str:
    if count is None:
        return "unknown space"
    return f"{count / 2**30:.1f} GiB" if count >= 1 << 30 else f"{count / 2**20:.0f} MiB"


def _starts(shell: Shell, command: list[str], name: str) -> str:
    finished = shell.run(command_line([*command, "--version"]))
    if error := start_error(finished, RUN, shell.where, name):
        raise error
    if finished.code:
        how = last_line(finished.errors or finished.output) or f"exit code {finished.code}"
        raise DeviceError(shell.where, f"{RUN} does not run there ({how})", f"set devices.{name}.programs")
    return last_line(finished.output) or "starts"


def _test_tunnel(shell: Shell) -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        return f"its port {shell.reverse(listening.getsockname()[1])} leads here"


def _try(steps: list[Step], name: str, work: Callable, describe: Callable[..., str] = str):
    try:
        result = work()
    except TvmakeError as error:
        steps.append(_problem(name, error))
        return None
    steps.append(_ok(name, describe(result)))
    return result


def _ok(step: str, details: str) -> Step:
    return {"state": "ok", "step": step, "details": details, "remedy": ""}


def _problem(step: str, error: TvmakeError) -> Step:
    key = "" if error.where.startswith("device ") else f"{error.where}: "
    remedy = "" if error.remedy == DOCTOR_HINT else error.remedy or ""
    return {"state": "problem", "step": step, "details": f"{key}{error.problem}", "remedy": remedy}
