"""The operations of a device without Python: commands, files, and tunnels.

ssh and adb both run command lines of a POSIX shell (dash, busybox, Android's mksh with toybox), and both can forward ports.
Everything else, such as the layout of files, is implemented once on top of this.
"""

import shlex
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tvmake.errors import DeviceError, TvmakeError
from tvmake.process.supervised import last_line

QUICK_S = 30.0
"""The timeout of short commands; a phone that wakes up takes seconds."""

CONNECT_S = 15.0
"""The timeout of a connection."""


NO_DIRECTORY = "mkdir:"
"""The beginning of a device's error for a directory that cannot be created."""

PLAIN = frozenset(string.ascii_letters + string.digits + " _-+=:,./@")
"""Characters that mean the same to every shell inside quotation marks."""

DOCTOR_HINT = "`tvmake doctor` tries each step by itself"


class Unreachable(DeviceError):
    """A device that cannot be reached or is not usable; another device may be."""


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    """The exit code; 128 and the signal's number if a signal ended it."""
    output: str
    errors: str


class Started(Protocol):
    """A running command; it ends with the connection."""

    def wait(self, timeout_s: float | None = None) -> Finished | None:
        """Its result; None if it still runs after ``timeout_s`` seconds."""
        ...

    def output(self) -> str:
        """Its output and errors so far."""
        ...

    def stop(self) -> None:
        """End it with its children."""
        ...


class Shell(Protocol):
    """An open connection to one device."""

    member: str
    """The device's host or serial number."""
    where: str
    """The beginning of errors."""
    loopback: str
    """The device's loopback address, at its end of a tunnel."""

    def run(self, command: str, timeout_s: float = QUICK_S) -> Finished:
        """Run a command line to its end; it is ended after the timeout, or when this process ends.

        Raises:
            TimeoutError: it took longer.
            Unreachable: the device was lost.
        """
        ...

    def start(self, command: str, is_bound: bool = True) -> Started:
        """Start a command line that ends when it is stopped, or with the connection.

        Args:
            is_bound: if false, it is not killed; only its standard input ends.

        Raises:
            Unreachable: the device was lost.
        """
        ...

    def send(self, source: Path, destination: str) -> None:
        """Copy a file to the device.

        Raises:
            DeviceError: it cannot be written on the device.
            Unreachable: the device was lost.
        """
        ...

    def fetch(self, source: str, destination: Path) -> None:
        """Copy a file from the device.

        Raises:
            DeviceError: it cannot be read on the device.
            Unreachable: the device was lost.
        """
        ...

    def forward(self, port: int) -> None:
        """Forward this machine's loopback ``port`` to the device's loopback port of the same number.

        Raises:
            DeviceError: the port is in use, or tunnels are not allowed.
        """
        ...

    def reverse(self, port: int) -> int:
        """Forward a loopback port of the device to this machine's loopback ``port``; returns the device's port.

        Raises:
            DeviceError: tunnels are not allowed.
        """
        ...

    def close(self) -> None:
        """End the connection with its tunnels and commands."""
        ...


def bound_command(command: str) -> str:
    """A command line that is killed with its children when its standard input ends, as it does with the connection."""
    child = shlex.quote(f"exec 3<&-; {command}")
    return (
        "exec 3<&0; s=$(command -v setsid); "
        f"$s sh -c {child} </dev/null & p=$!; "
        "(cat <&3; kill -9 -$p || kill -9 $p) >/dev/null 2>&1 & w=$!; exec 3<&-; "
        "wait $p; c=$?; kill -9 -$p $w 2>/dev/null; exit $c"
    )


def in_sh(command: str) -> str:
    """A command line that runs in ``sh``, for any login shell (fish, csh)."""
    script = "".join(c if c in PLAIN else "".join(f"\\{byte:03o}" for byte in c.encode()) for c in command)
    return f'exec sh -c \'eval "$(printf "{script}")"\''


def command_line(arguments: Sequence[str]) -> str:
    """Arguments as a command line."""
    return " ".join(shlex.quote(argument) for argument in arguments)


def command_error(where: str, doing: str, errors: str) -> TvmakeError:
    """The error for a command that failed on the device, from its output."""
    line = last_line(errors) or "no message"
    if "No space left" in errors or "ENOSPC" in errors:
        return Unreachable(where, f"no space left on the device ({doing})", "free some there, or set another directory")
    if "Read-only file system" in errors or "Permission denied" in errors:
        return DeviceError(where, f"{doing}: {line}", "set the device's directory to a writable one")
    remedy = "set the device's directory to a writable one" if NO_DIRECTORY in errors else DOCTOR_HINT
    return DeviceError(where, f"{doing} failed: {line}", remedy)
