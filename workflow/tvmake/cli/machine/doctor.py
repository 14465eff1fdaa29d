"""``tvmake doctor``: check what this machine can do, or whether a device works."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmake.cli.configs import ConfigFiles
from tvmake.cli.terminal import open_console

if TYPE_CHECKING:
    from tvmake.doctor.check import Check

MARKS = {"ok": "[green]ok[/green]", "missing": "[yellow]missing[/yellow]", "problem": "[red]problem[/red]"}


def doctor(
    device: Annotated[
        str | None,
        typer.Argument(
            metavar="DEVICE", help="A device of the config, or its address: test each step of the connection."
        ),
    ] = None,
    config: ConfigFiles = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Install required libraries that are missing or broken, with pip.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one entry per check.")] = False,
) -> None:
    """Check what this machine can do, and how to install what is missing; or whether a DEVICE works.

    Without a device: checks libraries, compiles a kernel with each of TVM's code generators, links and runs one, and looks for
    compilers, OpenCL devices, Android devices and an RPC tracker. The exit code is 0 if everything that tvmake needs is
    installed, else 3. Optional parts that are missing only reduce the targets you can use.

    With a device: tests the connection, programs, tunnels and sensors in turn. A device that passes is used again by later runs.
    """
    import json

    if device is not None:
        _examine_device(device, config, as_json)
        return
    from tvmake.doctor.examine import examine

    checks = examine()
    if fix:
        checks = _fix(checks)
    failed = [check for check in checks if check.is_fatal]
    if as_json:
        typer.echo(json.dumps({"ok": not failed, "checks": [check.as_json() for check in checks]}, indent=2))
    else:
        _print(checks, failed)
    if failed:
        raise typer.Exit(3)


def _fix(checks: "list[Check]") -> "list[Check]":
    """Install the libraries without which tvmake does not work, and examine again if one was installed."""
    from tvmake.doctor.examine import examine
    from tvmake.doctor.libraries import install

    is_mended = False
    for check in checks:
        if check.is_fatal and check.hint.startswith("pip "):
            typer.echo(check.hint, err=True)
            is_mended |= install(check)
    return examine() if is_mended else checks


def _examine_device(name: str, config: list[Path] | None, as_json: bool) -> None:
    from tvmake.cli.device import tables
    from tvmake.cli.device.app import chosen_device
    from tvmake.device.survey.examination import examine

    steps = examine(name, chosen_device(name, config))
    tables.show(steps, as_json, tables.DOCTOR)
    if any(step["state"] == "problem" for step in steps):
        raise typer.Exit(3)


def _print(checks: "list[Check]", failed: "list[Check]") -> None:
    from rich.markup import escape
    from rich.table import Table

    console = open_console(160)
    for group in dict.fromkeys(check.group for check in checks):
        table = Table(
            title=group, title_justify="left", title_style="bold", show_header=False, box=None, pad_edge=False
        )
        table.add_column(min_width=7)
        table.add_column(min_width=22)
        table.add_column(overflow="fold")
        for check in checks:
            if check.group == group:
                hint = f"\n[dim]→ {escape(check.hint)}[/dim]" if check.hint else ""
                required = "[red]required: [/red]" if check.is_fatal else ""
                table.add_row(MARKS[check.status], escape(check.name), required + escape(check.detail) + hint)
        console.print(table)
        console.print()
    if failed:
        console.print(f"tvmake cannot work here yet: {', '.join(check.name for check in failed)}", style="red")
    else:
        missing = sum(check.status != "ok" for check in checks)
        console.print(f"tvmake works here; {missing} optional things are missing" if missing else "tvmake works here")
