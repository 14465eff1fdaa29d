"""Which config files a command works on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cli import verbosity
from tvmake.errors import InputError, UsageError

if TYPE_CHECKING:
    from tvmake.plan.plan import Plan, Variant

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
    Path.cwd()  # an error of its own where that directory is deleted
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
        if not equals or key != key.strip() or "" in key.split(".") or key.count(".") >= DEEPEST:
            raise UsageError(f"{option} {setting}", "expected KEY=VALUE", f"for example: {option} {example}")
        try:
            value = parse(text).values()
        except yaml.YAMLError as error:
            if isinstance(error, yaml.MarkedYAMLError) and error.note:
                raise UsageError(f"{option} {setting}", error.problem or "", error.note) from None
            remedy = f"quote it for the shell, and close its brackets: {option} '{key}=[a, b]'"
            if text[:1] in tuple("@`%&*!|>"):
                remedy = f"a text that begins with {text[0]} is put in quotation marks: {option} '{key}=\"{text}\"'"
            raise UsageError(f"{option} {setting}", "the value is not YAML", remedy) from None
        place = layer
        *parents, last = key.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return layer


@contextmanager
def naming_lines(files: list[Path]) -> Iterator[None]:
    """Errors that name a key of the config leave with its file and line."""
    from tvmake.errors import TvmakeError

    try:
        yield
    except TvmakeError as error:
        from tvmake.config.reading.load import located

        raise located(error, files) from None


def print_note(text: str) -> None:
    """Print what a user may want to change, and need not; ``--quiet`` leaves it out."""
    if not verbosity.Verbosity.quiet:
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
    verbosity.print_detail(f"config: {', '.join(map(str, files))}{' and --set' if layer else ''}")
    return Plan(load_layers(files, layer, note) if note else load_layers(files, layer))


Directory = Annotated[Path, typer.Option("--directory", "-d", help="Work in this directory.")]


def no_directory(named: Path) -> InputError:
    """What to say when the directory to work in is none."""
    if named.exists():
        return InputError(str(named), "is no directory", f"name the one that it lies in: {named.parent}")
    return InputError(str(named), "no such directory", "name one that is there; the config is looked for in it")


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def files_in(directory: Path, config: list[Path] | None) -> list[Path]:
    """Go to a directory; returns the config files there, which are given from where the command was typed.

    Raises:
        InputError: there is no such directory, or no config in it.
    """
    if not directory.is_dir():
        raise no_directory(directory)
    paths = [path.resolve() for path in config] if config else None
    os.chdir(directory)
    return [Path(os.path.relpath(path)) for path in config_files(paths)]


def plan_in(directory: Path, config: list[Path] | None, settings: list[str] | None) -> Plan:
    """Go to a directory, and read the plan of the config there (:func:`files_in`), whose results can be read.

    Raises:
        InputError: there is no such directory, or no config in it.
        MachineError: results of an earlier run may not be read.
        TvmakeError: the config is wrong.
    """
    from tvmake.plan.access import check_access

    plan = load_plan(files_in(directory, config), settings)
    check_access(plan, plan.variants)
    return plan


def named_variants(plan: Plan, named: str) -> Sequence[Variant]:
    """The variant of a name (``model/precision/target``), or all of a model's.

    Raises:
        InputError: there is none.
    """
    from difflib import get_close_matches

    found = [variant for variant in plan.variants if named.strip("/") in (str(variant), variant.model)]
    if found:
        return found
    names = [*map(str, plan.variants), *plan.config.models]
    close = get_close_matches(named, names, 1)
    remedy = f"did you mean '{close[0]}'? " if close else ""
    raise InputError(named, "no such variant or model", f"{remedy}`tvmake status` lists the variants")
