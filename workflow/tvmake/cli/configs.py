"""Which config files a command works on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.errors import InputError, UsageError

if TYPE_CHECKING:
    from tvmake.plan.plan import Plan

DEFAULTS = (Path("tvmake.yaml"), Path("config/config.yaml"))

ConfigFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        "-c",
        help="Config file; give several to lay later ones over earlier ones. [default: tvmake.yaml, else config/config.yaml]",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", metavar="KEY=VALUE", help="Override one key, e.g. benchmark.repeat=100; the value is YAML."
    ),
]


def config_files(given: list[Path] | None) -> list[Path]:
    """The files given, or the default one that exists.

    Raises:
        InputError: none was given and there is no default.
    """
    if given:
        return given
    for path in DEFAULTS:
        if path.is_file():
            return [path]
    raise InputError(
        "config", f"none given, and no {DEFAULTS[0]} here", "`tvmake init MODEL` writes one; or name it with -c"
    )


def overlay(settings: list[str] | None, option: str = "--set", example: str = "benchmark.repeat=100") -> dict[str, Any]:
    """``--set`` options as one config layer; other options of the same form likewise.

    Raises:
        UsageError: an option is not KEY=VALUE, or its value is not YAML.
    """
    import yaml

    from tvmake.config.reading.yaml_text import DEEPEST, parse

    layer: dict[str, Any] = {}
    for setting in settings or ():
        key, equals, text = setting.partition("=")
        if not equals or not key or "" in key.split(".") or key.count(".") >= DEEPEST:
            raise UsageError(f"{option} {setting}", "expected KEY=VALUE", f"for example: {option} {example}")
        try:
            value = parse(text).values()
        except yaml.YAMLError:
            raise UsageError(f"{option} {setting}", "the value is not YAML") from None
        place = layer
        *parents, last = key.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return layer


def print_note(text: str) -> None:
    """Print what a user may want to change, and need not."""
    typer.echo(f"note: {text}", err=True)


def load_plan(files: list[Path], settings: list[str] | None, note: Callable[[str], None] | None = None) -> Plan:
    """The plan of config files with ``--set`` options over them.

    Args:
        note: is called with each remark on the config; None drops them.

    Raises:
        TvmakeError: the config is wrong; all its mistakes are listed.
    """
    from tvmake.config.reading.load import load_layers
    from tvmake.plan.plan import Plan

    layer = overlay(settings)
    return Plan(load_layers(files, layer, note) if note else load_layers(files, layer))
