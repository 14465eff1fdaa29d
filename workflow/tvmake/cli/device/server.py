"""RPC servers in the foreground: on this machine, or on a device that has only a shell."""

import ipaddress
import os
import platform
import socket
import sys
import time

import typer
from pydantic import TypeAdapter, ValidationError

from tvmake.config.device import DeviceConfig, Key, LocalDeviceConfig, RpcDeviceConfig
from tvmake.device.store import store_root
from tvmake.device.survey.listing import tracker_address
from tvmake.device.transport.programs import native_server
from tvmake.errors import UsageError


def is_loopback(host: str) -> bool:
    """Whether a name or address refers to this machine only.

    Raises:
        UsageError: it cannot be resolved.
    """
    try:
        addresses = socket.getaddrinfo(host or "0.0.0.0", None)
    except (OSError, UnicodeError) as error:  # UnicodeError for names such as a..b
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        raise UsageError(f"--host {host}", f"no such address ({reason})", "listen on 127.0.0.1") from None
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in addresses)


def check_loopback(host: str, allow_remote: bool) -> None:
    """Refuse an address that other machines can reach, unless the user allows it.

    Raises:
        UsageError: the address is refused or cannot be resolved.
    """
    if allow_remote or is_loopback(host):
        return
    raise UsageError(
        f"--host {host}",
        "RPC has no passwords and no encryption: anyone who can reach this address can run code on this machine",
        "listen on 127.0.0.1 and connect through ssh or adb tunnels (docs/guides/devices-rpc.md); in a private network, add "
        "--allow-remote",
    )


def check_key(key: str | None) -> None:
    """Refuse a key that is invalid in a config.

    Raises:
        UsageError: the key is invalid.
    """
    try:
        TypeAdapter(Key | None).validate_python(key)
    except ValidationError:
        problem = "a key is a name of up to 80 characters, without spaces and colons"
        raise UsageError(f"--key {key}", problem, "use the `key:` of the device in the config") from None


def serve_here(tracker: str | None, key: str | None, host: str, port: int, allow_remote: bool) -> None:
    """Run a server on this machine until Ctrl-C.

    Raises:
        UsageError: the address, the tracker's address or the key is invalid.
        MachineError: the native server cannot be built.
    """
    check_loopback(host, allow_remote)
    check_key(key)
    at, tracker_port = tracker_address(tracker)
    name = key or platform.node() or "local"
    options = ["--host", host, "--port", str(port), "--key", name, "--tracker", f"{at}:{tracker_port}"]
    typer.echo(f"server '{name}' for tracker {at}:{tracker_port}, at {host}:{port}; Ctrl-C stops it")
    sys.stdout.flush()
    environment = {**os.environ, "TVM_USE_RUNTIME_LIB": "1"}
    native = str(native_server())
    options += ["--cache", str(store_root().with_name("uploads"))]
    os.execve(native, [native, *options, *(["--allow-remote"] if allow_remote else [])], environment)


def serve_there(name: str, config: DeviceConfig, tracker: str | None, key: str | None, with_opencl: bool) -> None:
    """Run a server on each device of a config, with tunnels, until Ctrl-C.

    Raises:
        UsageError: the device is not over ssh or adb, the tracker is not on this machine, or the key is invalid.
        DeviceError: none of the devices can be used.
    """
    if isinstance(config, LocalDeviceConfig | RpcDeviceConfig):
        raise UsageError(
            f"device '{name}'",
            f"is 'via: {config.via}'; this command starts servers only on devices over ssh and adb",
            "run `tvmake device serve` on the device itself"
            if isinstance(config, RpcDeviceConfig)
            else "omit the name",
        )
    check_key(key)
    host, port = tracker_address(tracker)
    if not is_loopback(host):
        raise UsageError(
            f"--tracker {host}:{port}",
            "is not on this machine, where the tunnels end",
            "start one here: `tvmake device tracker`",
        )
    from tvmake.device.rpc.serving import Serving

    serving = Serving(name, config, port, key or name, with_opencl)
    typer.echo(f"server '{key or name}' on {name} for tracker {host}:{port}; Ctrl-C stops it")
    try:
        while serving.is_serving():
            time.sleep(1)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    finally:
        serving.close()
    raise typer.Exit(3)
