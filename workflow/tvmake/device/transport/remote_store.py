"""Directories of files on a device, by digest: sent once, verified, and replaced if damaged."""

import posixpath
import secrets
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tvmake.device.transport.shell import QUICK_S, Shell, command_error
from tvmake.errors import DeviceError
from tvmake.storage.files import canonical_json, digest_bytes, digest_file

CHECK_S = 120.0
"""How long a slow device may take to read back a large package."""


@dataclass(frozen=True)
class Uploaded:
    """A directory on a device."""

    path: str
    sent_bytes: int
    """Bytes sent by this upload; 0 if the device had the files."""


def upload(shell: Shell, files: Mapping[str, Path], destination: str, programs: tuple[str, ...] = ()) -> Uploaded:
    """Send ``files`` (name → file) to the directory ``destination``, unless it has them intact.

    Args:
        destination: a directory named after its content.
        programs: names that must be executable.

    Raises:
        DeviceError: the device cannot be written, or is full.
    """
    digests = {name: digest_file(file) for name, file in files.items()}
    if _is_intact(shell, digests, destination):
        return Uploaded(destination, 0)
    new_directory = f"{destination}.{secrets.token_hex(4)}"
    # An interrupted upload leaves its directory; nothing takes a day to send.
    parent = shlex.quote(posixpath.dirname(destination))
    tidy = f"find {parent} -mindepth 1 -maxdepth 1 -name '*.????????' -mtime +1 -exec rm -rf {{}} \\;"
    try:
        _run(shell, f"mkdir -p {shlex.quote(new_directory)} && {{ {tidy}; true; }}", "making a directory")
        for name, file in files.items():
            shell.send(file, f"{new_directory}/{name}")
        if programs:
            _run(
                shell,
                f"cd {shlex.quote(new_directory)} && chmod 755 {' '.join(map(shlex.quote, programs))}",
                "setting modes",
            )
        if not _is_intact(shell, digests, new_directory, must_read=True):
            raise DeviceError(
                shell.where, f"files arrived altered in {new_directory}", "check the connection and the device's disk"
            )
        if _is_intact(shell, digests, destination):  # another process has sent it meanwhile
            _run(shell, f"rm -rf {shlex.quote(new_directory)}", "tidying up")
            return Uploaded(destination, 0)
        old, new = shlex.quote(destination), shlex.quote(new_directory)
        _run(shell, f"rm -rf {old} && mv {new} {old}", "putting files in place")
    except BaseException:
        with suppress(DeviceError, TimeoutError):
            shell.run(f"rm -rf {shlex.quote(new_directory)}")
        raise
    return Uploaded(destination, sum(file.stat().st_size for file in files.values()))


def key_of(files: Mapping[str, Path]) -> str:
    """The digest of a directory's files."""
    return digest_bytes(canonical_json({name: digest_file(file) for name, file in files.items()}).encode())


def _is_intact(shell: Shell, digests: Mapping[str, str], directory: str, must_read: bool = False) -> bool:
    names = " ".join(map(shlex.quote, digests))
    command = f"cd {shlex.quote(directory)} 2>/dev/null && sha256sum {names}"
    finished = shell.run(command, CHECK_S)
    if finished.code == 127:
        problem = "it has no sha256sum, which is needed to verify files"
        raise DeviceError(shell.where, problem, "install coreutils or busybox there")
    if must_read and finished.code:
        raise command_error(shell.where, "reading files back with sha256sum", finished.errors or finished.output)
    digests_there = [line.split()[0].lstrip("\\") for line in finished.output.splitlines() if line.split()]
    return finished.code == 0 and digests_there == list(digests.values())


def _run(shell: Shell, command: str, doing: str) -> None:
    finished = shell.run(command, QUICK_S)
    if finished.code:
        raise command_error(shell.where, doing, finished.errors or finished.output)
