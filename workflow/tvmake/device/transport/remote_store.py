"""Directories of files on a device, by digest: sent once, checked, replaced when they were damaged there."""

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
"""For a slow device to read back a large package."""


@dataclass(frozen=True)
class Uploaded:
    """A directory on a device."""

    path: str
    sent_bytes: int
    """What was sent just now; 0 when it was there."""


def upload(shell: Shell, files: Mapping[str, Path], destination: str, programs: tuple[str, ...] = ()) -> Uploaded:
    """Have ``files`` (name → file) in the directory ``destination``, sending them only when they are not there intact.

    Args:
        destination: named after its content.
        programs: names that must be executable.

    Raises:
        DeviceError: the device cannot be written, or is full.
    """
    digests = {name: digest_file(file) for name, file in files.items()}
    if _is_intact(shell, digests, destination):
        return Uploaded(destination, 0)
    fresh = f"{destination}.{secrets.token_hex(4)}"
    # What was being sent when a connection was lost stays behind; nothing is sent for a day.
    beside = shlex.quote(posixpath.dirname(destination))
    tidy = f"find {beside} -mindepth 1 -maxdepth 1 -name '*.????????' -mtime +1 -exec rm -rf {{}} \\;"
    try:
        _run(shell, f"mkdir -p {shlex.quote(fresh)} && {{ {tidy}; true; }}", "making a directory")
        for name, file in files.items():
            shell.send(file, f"{fresh}/{name}")
        if programs:
            _run(shell, f"cd {shlex.quote(fresh)} && chmod 755 {' '.join(map(shlex.quote, programs))}", "setting modes")
        if not _is_intact(shell, digests, fresh, must_read=True):
            raise DeviceError(
                shell.where, f"files arrived altered in {fresh}", "check the connection and the device's disk"
            )
        if _is_intact(shell, digests, destination):  # another process has put it there meanwhile
            _run(shell, f"rm -rf {shlex.quote(fresh)}", "tidying up")
            return Uploaded(destination, 0)
        old, new = shlex.quote(destination), shlex.quote(fresh)
        _run(shell, f"rm -rf {old} && mv {new} {old}", "putting files in place")
    except BaseException:
        with suppress(DeviceError, TimeoutError):
            shell.run(f"rm -rf {shlex.quote(fresh)}")
        raise
    return Uploaded(destination, sum(file.stat().st_size for file in files.values()))


def key_of(files: Mapping[str, Path]) -> str:
    """The digest of a directory's content."""
    return digest_bytes(canonical_json({name: digest_file(file) for name, file in files.items()}).encode())


def _is_intact(shell: Shell, digests: Mapping[str, str], directory: str, must_read: bool = False) -> bool:
    names = " ".join(map(shlex.quote, digests))
    command = f"cd {shlex.quote(directory)} 2>/dev/null && sha256sum {names}"
    finished = shell.run(command, CHECK_S)
    if finished.code == 127:
        raise DeviceError(
            shell.where,
            "it has no sha256sum, which tells whether files are intact",
            "install coreutils or busybox there",
        )
    if must_read and finished.code:
        raise command_error(shell.where, "reading files back with sha256sum", finished.errors or finished.output)
    found = [line.split()[0].lstrip("\\") for line in finished.output.splitlines() if line.split()]
    return finished.code == 0 and found == list(digests.values())


def _run(shell: Shell, command: str, doing: str) -> None:
    finished = shell.run(command, QUICK_S)
    if finished.code:
        raise command_error(shell.where, doing, finished.errors or finished.output)
