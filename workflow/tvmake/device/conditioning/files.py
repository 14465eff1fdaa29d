"""Files of a device below /sys: of this machine, or behind a shell."""

import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tvmake.device.conditioning.controls import Setting
from tvmake.device.transport.shell import Shell
from tvmake.errors import DeviceError
from tvmake.process.supervised import ChildProcess, last_line


class LocalFiles:
    """Files of this machine; implements :class:`tvmake.device.conditioning.controls.Files`.

    Args:
        root: the root of its file system.
    """

    def __init__(self, where: str, root: Path = Path("/")):
        self.where = where
        self._root = root

    def read(self, patterns: tuple[str, ...]) -> dict[str, str]:
        contents = {}
        for pattern in patterns:
            for file in sorted(self._root.glob(pattern.lstrip("/"))):
                try:
                    contents[f"/{file.relative_to(self._root)}"] = file.read_text().strip()
                except OSError:
                    continue  # sensors that are off cannot be read
        return contents

    def write(self, path: str, value: str) -> None:
        try:
            (self._root / path.lstrip("/")).write_text(value)
        except OSError as error:
            raise not_writable(self.where, path, value, str(error.strerror)) from error

    def guard(self, settings: Sequence[Setting]) -> Callable[[], None]:
        script = _restore_command(settings, str(self._root).rstrip("/"))
        return ChildProcess(["/bin/sh", "-c", script], stdin=subprocess.PIPE).close


class ShellFiles:
    """Files of a device behind a shell; implements :class:`tvmake.device.conditioning.controls.Files`."""

    def __init__(self, shell: Shell):
        self.where = shell.where
        self._shell = shell

    def read(self, patterns: tuple[str, ...]) -> dict[str, str]:
        command = f'for f in {" ".join(patterns)}; do v=$(cat "$f" 2>/dev/null) && echo "$f=$v"; done; true'
        pairs = (line.partition("=") for line in self._shell.run(command).output.splitlines())
        return {path: value.strip() for path, _, value in pairs if path.startswith("/")}

    def write(self, path: str, value: str) -> None:
        finished = self._shell.run(_write(path, value))
        if finished.code:
            raise not_writable(self.where, path, value, last_line(finished.errors))

    def guard(self, settings: Sequence[Setting]) -> Callable[[], None]:
        return self._shell.start(_restore_command(settings), is_bound=False).stop


def _write(path: str, value: str) -> str:
    """A command line that sets a file, as root if necessary."""
    line = f"printf %s {shlex.quote(value)} > {shlex.quote(path)}"
    return f"{{ {line} || su -c {shlex.quote(line)} || su 0 sh -c {shlex.quote(line)}; }}"


def _restore_command(settings: Sequence[Setting], root: str = "") -> str:
    """A command that restores the unchanged settings after its standard input ends."""
    lines = [
        f'test "$(cat {shlex.quote(root + setting.path)})" = {shlex.quote(setting.value)} && {_write(root + setting.path, setting.previous)}'
        for setting in reversed(settings)
    ]
    return "cat >/dev/null; " + "; ".join(lines)


def not_writable(where: str, path: str, value: str, why: str) -> DeviceError:
    """The error for a setting that the device refuses."""
    problem = f"{path} cannot be set to {value} ({why})"
    return DeviceError(where, problem, "conditioning needs root there; leave governor and clocks out")
