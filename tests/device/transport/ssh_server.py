"""A real sshd on loopback, with its own configuration, keys and port."""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import asyncssh

from tests.requirements import need
from tests.tune.measure.farm import HOST, free_port
from tests.tune.measure.processes import eventually

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")


class Sshd:
    """One sshd; sessions have ``bin`` in front of their PATH, so that a test can put words into the device's mouth.

    Their home is empty: what this machine's user has shells do takes time, and must not be killed in the middle.
    """

    def __init__(self, directory: Path, user_key: asyncssh.SSHKey | None = None, options: str = ""):
        need("sshd")
        self.directory = directory
        self.port = free_port()
        self.bin = directory / "bin"
        self.bin.mkdir(parents=True)
        (directory / "home").mkdir()
        self.user_key = user_key or asyncssh.generate_private_key("ssh-ed25519")
        self.identity = directory / "id"
        self.user_key.write_private_key(str(self.identity))
        self.identity.chmod(0o600)
        self.user_key.write_public_key(str(directory / "authorized_keys"))
        self.known_hosts = directory / "known_hosts"
        self.new_host_key()
        self.trust()
        (directory / "sshd_config").write_text(
            f"""
            Port {self.port}
            ListenAddress {HOST}
            HostKey {directory}/host_key
            PidFile none
            AuthorizedKeysFile {directory}/authorized_keys
            StrictModes no
            UsePAM no
            PasswordAuthentication no
            PermitRootLogin prohibit-password
            SetEnv PATH={self.bin}:/usr/local/bin:/usr/bin:/bin HOME={directory}/home
            {options}
            """
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def host(self) -> str:
        return f"{HOST}:{self.port}"

    def config(self, **more: object) -> dict[str, object]:
        """A device's config that reaches it."""
        return {
            "via": "ssh",
            "host": self.host,
            "identity": str(self.identity),
            "known_hosts": str(self.known_hosts),
            "directory": str(self.directory / "there"),
            **more,
        }

    def new_host_key(self) -> None:
        key = self.directory / "host_key"
        host_key = asyncssh.generate_private_key("ssh-ed25519")
        key.unlink(missing_ok=True)
        host_key.write_private_key(str(key))
        key.chmod(0o600)
        self._host_key = host_key.export_public_key().decode().strip()

    def trust(self) -> None:
        """Write the host's key where users have it."""
        self.known_hosts.write_text(f"[{HOST}]:{self.port} {self._host_key}\n")

    def says(self, command: str, script: str) -> None:
        """Have a command of the device do something else."""
        file = self.bin / command
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def start(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.process = subprocess.Popen(
            [str(SSHD), "-D", "-e", "-f", str(self.directory / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stderr=(self.directory / "sshd.log").open("ab"),
            start_new_session=True,
        )
        eventually(self._answers)

    def stop(self) -> None:
        """As when the device goes: open connections, too."""
        if self.process is not None:
            mine = _descendants(self.process.pid)
            for process in mine:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), 1).close()
        except OSError:
            return False
        return True


def _descendants(process: int) -> list[int]:
    from tests.tune.measure.processes import children

    found = [process]
    for child in children(process):
        found += _descendants(child)
    return found
