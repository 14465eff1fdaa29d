"""Every step on the way to a device, tried by itself."""

import socket
from collections.abc import Callable

from tvmake.config.device import DeviceConfig
from tvmake.device.conditioning import observe
from tvmake.device.conditioning_files import ShellFiles
from tvmake.device.connect import connect
from tvmake.device.group import place
from tvmake.device.health import recovered
from tvmake.device.programs import RUN, bring, not_started
from tvmake.device.shell import Shell, joined, last_line
from tvmake.device.shell_device import ShellDevice
from tvmake.device.shell_devices import shell_devices
from tvmake.device.tracker import Tracker
from tvmake.errors import TvmakeError

LITTLE_SPACE = 200 << 20
"""Bytes; packages of large networks need more."""

Step = dict[str, object]


def examined(name: str, config: DeviceConfig) -> list[Step]:
    """Try them; a step that fails ends a device's row, since the next ones need it."""
    steps: list[Step] = []
    if config.via in ("ssh", "adb"):
        try:
            members = shell_devices(name, config)
        except TvmakeError as error:
            return [_problem("configuration", error)]
        for member in members:
            _shell_steps(member, steps)
        return steps
    if config.via == "rpc":
        tracker = _tried(steps, "tracker", lambda: Tracker.of(name, config))
        if tracker is None:
            return steps
        servers = _tried(steps, "servers", tracker.servers, lambda found: f"{len(found)} with key '{tracker.key}'")
        if servers is None:
            return steps
    _tried(
        steps,
        "session" if config.via == "rpc" else "this machine",
        connect(name, config).fingerprint,
        lambda told: told.soc,
    )
    return steps


def _shell_steps(member: ShellDevice, steps: list[Step]) -> None:
    begin = f"{member.member}: " if member.member != member.name else ""
    try:
        with member.shell() as shell:
            steps.append(_ok(f"{begin}connection", f"over {member.config.via}"))
            known = member.facts(shell)
            free = f"{known.free_bytes / 2**30:.1f} GiB free in {known.directory}"
            if 0 < known.free_bytes < LITTLE_SPACE:
                steps.append(
                    {"state": "warning", "step": f"{begin}space", "details": free, "remedy": "free some there"}
                )
            else:
                steps.append(_ok(f"{begin}space", free))
            told = known.fingerprint(member.config)
            steps.append(_ok(f"{begin}device", f"{told.soc}, {told.os}, {known.machine}, root: {told.details['root']}"))
            found = len(steps)
            programs = _tried(
                steps,
                f"{begin}programs",
                lambda: bring(shell, member.config, known, member.name, member.is_android),
                lambda placed: f"{placed.sent_bytes} bytes sent" if placed.sent_bytes else "there already",
            )
            if programs:
                _tried(
                    steps, f"{begin}runner", lambda: _starts(shell, programs.command(RUN, member.config), member.name)
                )
            _tried(steps, f"{begin}tunnels", lambda: _tunnels(shell))
            state = observe(ShellFiles(shell), [])
            hottest = (
                f"{state.hottest[1]:.1f} °C ({state.hottest[0]})" if state.hottest else "no sensor that may be read"
            )
            slowed = f"; slowed down by heat: {', '.join(state.limited)}" if state.limited else ""
            steps.append(
                {
                    "state": "warning" if slowed else "ok",
                    "step": f"{begin}temperature",
                    "details": hottest + slowed,
                    "remedy": "",
                }
            )
            if all(step["state"] != "problem" for step in steps[found:]):
                recovered(place(member))
    except TvmakeError as error:
        steps.append(_problem(f"{begin}connection", error))


def _starts(shell: Shell, command: list[str], name: str) -> str:
    finished = shell.run(joined([*command, "--version"]))
    if error := not_started(finished, RUN, shell.where, name):
        raise error
    return last_line(finished.output) or "starts"


def _tunnels(shell: Shell) -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        return f"its port {shell.reverse(listening.getsockname()[1])} leads here"


def _tried(steps: list[Step], name: str, work: Callable, describe: Callable[..., str] = str):
    try:
        done = work()
    except TvmakeError as error:
        steps.append(_problem(name, error))
        return None
    steps.append(_ok(name, describe(done)))
    return done


def _ok(step: str, details: str) -> Step:
    return {"state": "ok", "step": step, "details": details, "remedy": ""}


def _problem(step: str, error: TvmakeError) -> Step:
    return {"state": "problem", "step": step, "details": error.problem, "remedy": error.remedy or ""}
