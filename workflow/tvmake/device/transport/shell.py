"""What a device must offer to be used without Python: commands, files, and tunnels.

ssh and adb both run a POSIX shell's command lines (dash, busybox, Android's mksh with toybox), and both can carry ports.
Everything else, such as which files lie where, is written once, on top of this.
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
"""For a command that only looks something up; a phone that wakes up takes seconds."""

CONNECT_S = 15.0
"""For a device to answer at all."""


NO_DIRECTORY = "mkdir:"
"""How devices begin to say why there is no such directory."""

PLAIN = frozenset(string.ascii_letters + string.digits + " _-+=:,./@")
"""Characters that mean the same to every shell between quotation marks."""

DOCTOR_HINT = "`tvmake doctor` tries each step by itself"


class Unreachable(DeviceError):
    """A device that cannot be reached, or used as it is: another of its kind may do."""


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    """128 and a signal's number when one ended it."""
    output: str
    errors: str


class Started(Protocol):
    """A command that runs; it ends with the connection."""

    def wait(self, timeout_s: float | None = None) -> Finished | None:
        """What became of it; None when it still runs after ``timeout_s`` seconds."""
        ...

    def output(self) -> str:
        """What it wrote so far, both ways out."""
        ...

    def stop(self) -> None:
        """End it, and what it started."""
        ...


class Shell(Protocol):
    """An open connection to one device."""

    member: str
    """Which device: its host or serial number."""
    where: str
    """What errors begin with."""
    loopback: str
    """The device's loopback address, where its end of a tunnel is."""

    def run(self, command: str, timeout_s: float = QUICK_S) -> Finished:
        """Run a command line to its end; what runs longer is ended, as is what runs when this process ends.

        Raises:
            TimeoutError: it took longer.
            Unreachable: the device was lost.
        """
        ...

    def start(self, command: str, is_bound: bool = True) -> Started:
        """Start a command line that ends when it is stopped, and at the latest with the connection.

        Args:
            is_bound: when false, it is not killed; its standard input ends instead.

        Raises:
            Unreachable: the device was lost.
        """
        ...

    def send(self, source: Path, destination: str) -> None:
        """Copy a file to the device.

        Raises:
            DeviceError: it cannot be written there.
            Unreachable: the device was lost.
        """
        ...

    def fetch(self, source: str, destination: Path) -> None:
        """Copy a file from the device.

        Raises:
            DeviceError: it cannot be read there.
            Unreachable: the device was lost.
        """
        ...

    def forward(self, port: int) -> None:
        """Let this machine's loopback ``port`` lead to the device's loopback port of the same number.

        Raises:
            DeviceError: the port is taken, or tunnels are not allowed.
        """
        ...

    def reverse(self, port: int) -> int:
        """Let a loopback port of the device lead to this machine's loopback ``port``; returns the device's.

        Raises:
            DeviceError: tunnels are not allowed.
        """
        ...

    def close(self) -> None:
        """End the connection, its tunnels and what was started over it."""
        ...


def bound_command(command: str) -> str:
    """A command line that is killed, with all it started, when its standard input ends, as it does with a connection."""
    child = shlex.quote(f"exec 3<&-; {command}")
    return (
        "exec 3<&0; s=$(command -v setsid); "
        f"$s sh -c {child} </dev/null & p=$!; "
        "(cat <&3; kill -9 -$p || kill -9 $p) >/dev/null 2>&1 & w=$!; exec 3<&-; "
        "wait $p; c=$?; kill -9 -$p $w 2>/dev/null; exit $c"
    )


def in_sh(command: str) -> str:
    """A command line for whatever shell a user has there (fish, csh), which has ``sh`` run it."""
    script = "".join(c if c in PLAIN else "".join(f"\\{byte:03o}" for byte in c.encode()) for c in command)
    return f'exec sh -c \'eval "$(printf "{script}")"\''


def command_line(arguments: Sequence[str]) -> str:
    """Arguments as a command line."""
    return " ".join(shlex.quote(argument) for argument in arguments)


def command_error(where: str, doing: str, errors: str) -> TvmakeError:
    """The error for a command that failed on the device, by what it wrote."""
    line = last_line(errors) or "no message"
    if "No space left" in errors or "ENOSPC" in errors:
        return Unreachable(where, f"no space left on the device ({doing})", "free some there, or set another directory")
    if "Read-only file system" in errors or "Permission denied" in errors:
        return DeviceError(where, f"{doing}: {line}", "set the device's directory to one that may be written there")
    remedy = "set the device's directory to one that may be written there" if NO_DIRECTORY in errors else DOCTOR_HINT
    return DeviceError(where, f"{doing} failed: {line}", remedy)
