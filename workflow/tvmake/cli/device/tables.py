"""Output of ``tvmake device``."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from tvmake.cli.terminal import open_console

if TYPE_CHECKING:
    from tvmake.artifact.fingerprint import Fingerprint

LIST = ("device", "via", "address", "state", "details")
DOCTOR = ("state", "step", "details", "remedy")
PUSH = ("device", "location", "sent_bytes", "size_bytes")
"""Columns, by the keys of rows."""

Row = Mapping[str, object]


def show(rows: Sequence[Row], as_json: bool, columns: Sequence[str], none: str = "no devices") -> None:
    """Print rows as a table, or as JSON with every key."""
    if as_json:
        typer.echo(json.dumps([dict(row) for row in rows], indent=2))
        return
    if not rows:
        typer.echo(none)
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(*(column.replace("_", " ") for column in columns), box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(escape(str(row.get(column, ""))) for column in columns))
    open_console(200).print(table)


def show_info(name: str, via: str, fingerprint: "Fingerprint", seen: Mapping[str, str], as_json: bool) -> None:
    """Print the fingerprint and the readings of a device."""
    if as_json:
        typer.echo(
            json.dumps(
                {"device": name, "via": via, "fingerprint": fingerprint.model_dump(mode="json"), "seen": dict(seen)},
                indent=2,
            )
        )
        return
    facts = {
        "device": f"{name} ({via})",
        "SoC": fingerprint.soc,
        "cores": str(fingerprint.cores),
        "memory": f"{fingerprint.memory_bytes / 2**30:.1f} GiB",
        "OS": fingerprint.os,
        "runtime": fingerprint.runtime,
        **fingerprint.details,
        **seen,
    }
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name:<{width}}  {value}")
