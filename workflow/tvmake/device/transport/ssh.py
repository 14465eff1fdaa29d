"""Devices over ssh: connecting, and explanations of failures."""

import shlex
import socket
from contextlib import suppress
from pathlib import Path

import asyncssh

from tvmake.config.device import SshDeviceConfig
from tvmake.device.transport.shell import CONNECT_S, Unreachable
from tvmake.device.transport.shell_device import ShellDevice
from tvmake.device.transport.ssh_connection import ALIVE_S, SILENT, Loop, SSHConnection
from tvmake.errors import InputError, TvmakeError

DIRECTORY = ".cache/tvmake"
"""Relative to the user's home directory on the device."""

KNOWN_HOSTS = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")


def ssh_devices(name: str, config: SshDeviceConfig) -> list[ShellDevice]:
    """A device for each host of the config."""
    devices = []
    for host in config.host:
        where = f"device '{name}' ({host})"
        connect = _Connect(host, config, where, name)
        devices.append(ShellDevice(name, host, config, connect, DIRECTORY))
    return devices


class _Connect:
    """Opens connections to one host."""

    def __init__(self, host: str, config: SshDeviceConfig, where: str, name: str):
        self.member = host
        self.host, self.port = _split(host)
        self.config = config
        self.where = where
        self.name = name

    def __call__(self) -> SSHConnection:
        known = _KnownHosts(self.config.known_hosts)
        loop = Loop()
        try:
            return SSHConnection(loop, loop.call(self._connect(known), 2 * CONNECT_S), self.member, self.where)
        except TvmakeError:
            loop.close()
            raise
        except Exception as error:
            shown = self._host_key_error(error, known, loop)
            loop.close()
            raise self._explain(shown, known) from error

    def _host_key_error(self, error: Exception, known: "_KnownHosts", loop: Loop) -> Exception:
        """asyncssh requests only key types that are known; a host with other types closes the connection."""
        if known.knows and isinstance(error, asyncssh.ConnectionLost | asyncssh.KeyExchangeFailed | ConnectionError):
            try:
                loop.call(self._connect(known, server_host_key_algs="default"), 2 * CONNECT_S)
            except asyncssh.HostKeyNotVerifiable as shown:
                return shown
            except Exception:  # noqa: BLE001  # the first error is raised
                return error
        return error

    async def _connect(self, known: "_KnownHosts", **options: object) -> asyncssh.SSHClientConnection:
        if self.port:
            options["port"] = self.port
        if self.config.user:
            options["username"] = self.config.user
        if self.config.identity:
            options["client_keys"] = [self._identity()]
        return await asyncssh.connect(
            self.host,
            known_hosts=known,
            password=None,
            kbdint_auth=False,
            connect_timeout=CONNECT_S,
            login_timeout=CONNECT_S,
            keepalive_interval=ALIVE_S,
            keepalive_count_max=SILENT,
            **options,
        )

    def _identity(self) -> asyncssh.SSHKey:
        path = Path(str(self.config.identity)).expanduser()
        where = f"devices.{self.name}.identity"
        try:
            return asyncssh.read_private_key(str(path))
        except FileNotFoundError:
            raise InputError(
                where, f"no such file: {path}", "name a private key, or leave it out for the usual ones"
            ) from None
        except OSError as error:
            problem = f"{path} cannot be read ({(error.strerror or str(error)).lower()})"
            raise InputError(where, problem, "name the file of a private key") from None
        except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError, UnicodeDecodeError) as error:
            why = "invalid private key" if isinstance(error, UnicodeDecodeError) else str(error).lower()
            remedy = "name the file of a private key, not that of the public one"
            if "passphrase" in why:
                remedy = "add it to the agent (`ssh-add`) and leave identity out, or take a key without a passphrase"
            raise InputError(where, f"{path} cannot be read ({why})", remedy) from None

    def _explain(self, error: Exception, known: "_KnownHosts") -> TvmakeError:
        at = f"{self.host}:{self.port}" if self.port else self.host
        file = shlex.quote(known.where) if self.config.known_hosts else ""
        of_file = f"-o UserKnownHostsFile={file} " if file else ""
        command = f"ssh {of_file}{f'-p {self.port} ' if self.port else ''}{self.host}"
        match error:
            case asyncssh.HostKeyNotVerifiable() | asyncssh.KeyExchangeFailed() if known.knows:
                return Unreachable(
                    self.where,
                    f"its host key is not the one in {known.where}: the device was reinstalled, or it is another machine",
                    f"when you are sure that it is the device, run `ssh-keygen {f'-f {file} ' if file else ''}-R '{known.entry}'` and `{command}` once",
                )
            case asyncssh.HostKeyNotVerifiable():
                remedy = f"run `{command}` once and compare the fingerprint that it shows with the device's"
                return Unreachable(self.where, f"its host key is not in {known.where}", remedy)
            case asyncssh.PermissionDenied():
                user = self.config.user or "you"
                of_user = f"-i {shlex.quote(self.config.identity)} " if self.config.identity else ""
                of_user += f"-l {shlex.quote(self.config.user)} " if self.config.user else ""
                command = command.replace("ssh ", f"ssh {of_user}", 1)
                remedy = f"copy a public key there (`ssh-copy-id`), or set user and identity; `{command}` must work without a password"
                return Unreachable(
                    self.where, f"it refuses {user} with every offered key ({self._offered_keys()})", remedy
                )
            case socket.gaierror() if _has_address(self.host):
                remedy = f"correct HostName or ProxyJump in ~/.ssh/config; `{command}` must work"
                return Unreachable(self.where, f"a host on the way to {self.host} has no address", remedy)
            case socket.gaierror():
                key = "the address" if ":" in self.name else f"devices.{self.name}.host"
                problem = f"no such host: {self.host}"
                return Unreachable(self.where, problem, f"correct {key}, or HostName and ProxyJump in ~/.ssh/config")
            case ConnectionRefusedError():
                return Unreachable(
                    self.where, f"no ssh server at {at} (connection refused)", "start sshd there, or correct the port"
                )
            case TimeoutError():
                return Unreachable(
                    self.where, f"{at} does not answer in {CONNECT_S:g} s", f"see whether `{command}` works"
                )
            case asyncssh.ConnectionLost() | ConnectionError():
                return Unreachable(self.where, f"{at} closed the connection", f"see whether `{command}` works")
            case asyncssh.ConfigParseError():
                return InputError("~/.ssh/config", str(error), "correct it; `ssh -G HOST` reads it too")
            case OSError() | asyncssh.Error():
                why = getattr(error, "strerror", None) or str(error) or type(error).__name__
                if isinstance(error, FileNotFoundError) and error.filename:
                    why = f"no such file, which a ProxyCommand may start: {error.filename}"
                return Unreachable(
                    self.where, f"{at} cannot be reached ({why[:1].lower()}{why[1:]})", f"see whether `{command}` works"
                )
        raise error

    def _offered_keys(self) -> str:
        return str(self.config.identity) if self.config.identity else "keys of the agent and of ~/.ssh"


class _KnownHosts:
    """Answers asyncssh's queries for a host's keys; records whether there were any."""

    def __init__(self, file: str | None):
        paths = [Path(path).expanduser() for path in ([file] if file else KNOWN_HOSTS)]
        self.where = str(paths[0])
        self.knows = False
        self.entry = ""
        self._known = asyncssh.import_known_hosts("".join(map(_entries, filter(Path.is_file, paths))))

    def __call__(self, host: str, address: str, port: int | None):
        matches = asyncssh.match_known_hosts(self._known, host, address, port)
        self.knows = any(matches[:2])
        self.entry = f"[{host}]:{port}" if port else host
        return matches


def _entries(file: Path) -> str:
    """The lines of a file of known hosts that can be parsed; others are skipped, as by ssh."""
    understood = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError, asyncssh.Error):
            asyncssh.import_known_hosts(line)
            understood.append(line + "\n")
    return "".join(understood)


def _has_address(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except (OSError, UnicodeError):
        return False


def _split(host: str) -> tuple[str, int | None]:
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        return name, int(port[1:]) if port else None
    name, _, port = host.partition(":")
    return name, int(port) if port else None
