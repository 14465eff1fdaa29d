"""``tvmake device …``: list, test and serve devices, push packages, and run an RPC tracker."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cli.configs import AsJson, ConfigFiles
from tvmake.cli.terminal import output_file

if TYPE_CHECKING:
    from tvmake.config.device import DeviceConfig

app = typer.Typer(no_args_is_help=True, help="List, test and serve devices; push packages; run an RPC tracker.")

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A device of the config, or its address (ssh:HOST, adb:SERIAL, rpc:TRACKER:PORT/KEY); `local` is this machine.",
    ),
]
AtTracker = Annotated[
    str | None,
    typer.Option(
        "--tracker", metavar="HOST:PORT", help="The tracker [default: TVM_TRACKER_HOST and TVM_TRACKER_PORT]."
    ),
]
AllowRemote = Annotated[
    bool,
    typer.Option(
        "--allow-remote", help="Listen on an address that other machines can reach; see docs/guides/devices-rpc.md."
    ),
]


@app.command("list")
def list_command(config: ConfigFiles = None, tracker: AtTracker = None, as_json: AsJson = False) -> None:
    """List the devices that the config, adb and the tracker know, and their state (free servers, waiting requests)."""
    from tvmake.cli.device import tables as device_tables
    from tvmake.device.survey.listing import list_devices

    rows = list_devices(devices_of(config), tracker)
    device_tables.show(rows, as_json, device_tables.LIST)


@app.command("info")
def info_command(name: Name = "local", config: ConfigFiles = None, as_json: AsJson = False) -> None:
    """Show a device's fingerprint, temperatures and governor."""
    from tvmake.cli.device import tables as device_tables
    from tvmake.device.conditioning.conditioned import readings
    from tvmake.device.connect import connect

    chosen = chosen_device(name, config)
    fingerprint = connect(name, chosen.model_copy(update={"conditioning": None})).fingerprint()
    device_tables.show_info(name, chosen.via, fingerprint, readings(name, chosen), as_json)


@app.command("selftest")
def selftest_command(
    name: Name = "local",
    config: ConfigFiles = None,
    targets: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            help="Target to compile for; repeatable. [default: the CPU, and OpenCL with buffers and textures]",
        ),
    ] = None,
    precisions: Annotated[
        list[str] | None,
        typer.Option("--precision", help="float32, float16 or float16_acc32; repeatable. [default: all three]"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.json", parser=output_file, help="Write the report.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Test whether a device computes correctly, and report the results.

    This compiles small networks for the device: a dozen operators, and a probe for each known defect of kernels for Adreno.
    The exit code is 4 if a result is wrong or missing.
    """
    from tvmake.cli.device.selftest import run_selftest
    from tvmake.config.reading.messages import one_of
    from tvmake.conformance.kit import PRECISIONS
    from tvmake.errors import UsageError

    for precision in precisions or ():
        if precision not in PRECISIONS:
            raise UsageError(f"--precision {precision}", *one_of(precision, PRECISIONS))
    run_selftest(name, chosen_device(name, config), targets or (), precisions or (), output, as_json)


@app.command("push")
def push_command(
    name: Name,
    package: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A package.tar.")],
    config: ConfigFiles = None,
    as_json: AsJson = False,
) -> None:
    """Copy a package to a device, or to all equal devices. Files that the device already has are not sent again.

    A package with several functions is copied as one package for each, with its weights.
    """
    from tvmake.cli.device import tables as device_tables
    from tvmake.device.connect import push_everywhere
    from tvmake.device.function_packages import put_functions
    from tvmake.errors import ErrorList

    rows, errors = [], []
    for file, _ in put_functions(package).values():
        pushed, failed = push_everywhere(name, chosen_device(name, config), file)
        rows += pushed
        errors += failed
    if rows or as_json:
        device_tables.show(rows, as_json, device_tables.PUSH)
    if errors:
        raise ErrorList(errors)


@app.command("serve")
def serve_command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A device over ssh or adb. [default: this machine]")
    ] = None,
    config: ConfigFiles = None,
    tracker: AtTracker = None,
    key: Annotated[
        str | None, typer.Option(help="Key of the server at the tracker [default: NAME, or this machine's name].")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on (this machine only).")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on (this machine only).")] = 9090,
    opencl: Annotated[bool, typer.Option("--opencl", help="Let the server run OpenCL kernels (devices only).")] = False,
    allow_remote: AllowRemote = False,
) -> None:
    """Run an RPC server until Ctrl-C, on this machine or on a device, with the tunnels it needs."""
    from tvmake.cli.device import server as device_server

    if name is None or name == "local":
        device_server.serve_here(tracker, key, host, port, allow_remote)
    else:
        device_server.serve_there(name, chosen_device(name, config), tracker, key, opencl)


@app.command("tracker")
def tracker_command(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")] = 9190,
    allow_remote: AllowRemote = False,
) -> None:
    """Run TVM's RPC tracker until Ctrl-C."""
    from tvmake.cli.device.server import check_loopback
    from tvmake.device.rpc.tracker_process import serve

    check_loopback(host, allow_remote)
    os.environ.setdefault("TVM_USE_RUNTIME_LIB", "1")

    def ready(bound: int) -> None:
        typer.echo(f"tracker at {host}:{bound}")
        typer.echo(f"  export TVM_TRACKER_HOST={host} TVM_TRACKER_PORT={bound}")

    try:
        serve(host, port, ready)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def devices_of(config: list[Path] | None) -> "dict[str, DeviceConfig]":
    """The config's devices; none if no config was named and none is here.

    Raises:
        InputError: the config is invalid.
    """
    from tvmake.cli.configs import DEFAULTS
    from tvmake.config.reading.load import load_layers

    paths = config or [path for path in DEFAULTS if path.is_file()][:1]
    return dict(load_layers(paths, {}).devices) if paths else {}


def chosen_device(name: str, config: list[Path] | None) -> "DeviceConfig":
    """A device by its name in the config, or by its address.

    Raises:
        InputError: the name is neither a device of the config nor an address.
    """
    from difflib import get_close_matches

    from tvmake.config.device import LocalDeviceConfig
    from tvmake.config.text.device import ADDRESSES, parse_device
    from tvmake.errors import InputError

    known = devices_of(config)
    if name in known:
        return known[name]
    if name == "local":
        return LocalDeviceConfig()
    if (address := parse_device(name)) is not None:
        return _at_address(name, address)
    close = get_close_matches(name, known, 1)
    hint = (
        f"did you mean '{close[0]}'?"
        if close
        else f"known devices: {', '.join(['local', *known])}; or give an address:"
    )
    raise InputError("devices", f"no device '{name}'", hint if close else f"{hint} {ADDRESSES}")


def _at_address(text: str, values: "dict[str, Any]") -> "DeviceConfig":
    from pydantic import TypeAdapter, ValidationError

    from tvmake.config.device import DeviceConfig
    from tvmake.config.text.device import ADDRESSES
    from tvmake.errors import InputError

    try:
        device: DeviceConfig = TypeAdapter(DeviceConfig).validate_python(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = first["msg"].removeprefix("Value error, ").partition(";")[0]
        if first["type"] == "missing":
            problem = f"needs a {first['loc'][-1]}"
        raise InputError(f"device '{text}'", problem, f"write it as {ADDRESSES}") from None
    return device
