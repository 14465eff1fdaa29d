"""Options for config files and directories, and the plan that a command works on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cli import verbosity
from tvmake.errors import InputError, UsageError, name_help

if TYPE_CHECKING:
    from tvmake.plan.plan import Plan, Variant

DEFAULTS = (Path("tvmake.yaml"), Path("config/config.yaml"))

ConfigFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        "-c",
        help="Config file; repeatable, later files override earlier ones. [default: tvmake.yaml, else config/config.yaml]",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", metavar="KEY=VALUE", help="Override one key, e.g. benchmark.repeat=100; the value is YAML."
    ),
]


def config_files(files: list[Path] | None) -> list[Path]:
    """Return the given files, or the default one that exists.

    Raises:
        InputError: no file was given and no default exists.
    """
    if files:
        return files
    for path in DEFAULTS:
        if path.is_file():
            return [path]
    Path.cwd()  # raises its own error if the directory was deleted
    raise InputError(
        "config",
        f"no config file given, and no {DEFAULTS[0]} here",
        "`tvmake init MODEL` writes one; or name one with -c",
    )


def overlay(settings: list[str] | None, option: str = "--set", example: str = "benchmark.repeat=100") -> dict[str, Any]:
    """``--set`` options, and others of the same form, as one config layer.

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
            remedy = f"quote it for the shell and close its brackets: {option} '{key}=[a, b]'"
            if text[:1] in tuple("@`%&*!|>"):
                remedy = f"quote a text that begins with {text[0]}: {option} '{key}=\"{text}\"'"
            raise UsageError(f"{option} {setting}", "the value is not YAML", remedy) from None
        section = layer
        *parents, last = key.split(".")
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return layer


@contextmanager
def naming_lines(files: list[Path]) -> Iterator[None]:
    """Add file and line to errors that name a config key."""
    from tvmake.errors import TvmakeError

    try:
        yield
    except TvmakeError as error:
        from tvmake.config.reading.load import locate

        raise locate(error, files) from None


def print_note(text: str) -> None:
    """Print a note, unless ``--quiet``."""
    if not verbosity.Verbosity.quiet:
        typer.echo(f"note: {name_help(text)}", err=True)


def load_plan(files: list[Path], settings: list[str] | None) -> Plan:
    """The plan of config files with ``--set`` options over them.

    Raises:
        TvmakeError: the config is invalid; all mistakes are listed.
    """
    from tvmake.config.reading.load import load_layers
    from tvmake.plan.plan import Plan
    from tvmake.process.garbage import collect_rarely

    collect_rarely()
    layer = overlay(settings)
    verbosity.print_detail(f"config: {', '.join(map(str, files))}{' and --set' if layer else ''}")
    return Plan(load_layers(files, layer))


Directory = Annotated[Path, typer.Option("--directory", "-d", help="Run in this directory.")]


def missing_directory(named: Path) -> InputError:
    """The error for a working directory that does not exist."""
    if named.exists():
        return InputError(str(named), "is not a directory", f"name the directory that contains it: {named.parent}")
    return InputError(str(named), "no such directory", "name an existing directory with a config in it")


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def files_in(directory: Path, config: list[Path] | None) -> list[Path]:
    """Change to a directory and return its config files. Given files are relative to the previous directory.

    Raises:
        InputError: the directory does not exist or has no config.
    """
    if not directory.is_dir():
        raise missing_directory(directory)
    paths = [path.resolve() for path in config] if config else None
    os.chdir(directory)
    return [Path(os.path.relpath(path)) for path in config_files(paths)]


def plan_in(directory: Path, config: list[Path] | None, settings: list[str] | None) -> Plan:
    """Change to a directory and return the plan of its config (:func:`files_in`). Checks that results can be read.

    Raises:
        InputError: the directory does not exist or has no config.
        MachineError: results of an earlier run cannot be read.
        TvmakeError: the config is invalid.
    """
    from tvmake.plan.access import check_access

    plan = load_plan(files_in(directory, config), settings)
    check_access(plan, plan.variants)
    return plan


def named_variants(plan: Plan, named: str) -> Sequence[Variant]:
    """Return the variant of a name (``model/precision/target``), or all variants of a model, its functions included.

    Raises:
        InputError: nothing has this name.
    """
    from difflib import get_close_matches

    variants = [variant for variant in plan.variants if named.strip("/") in plan.names_of(variant)]
    if variants:
        return variants
    names = [*map(str, plan.variants), *plan.config.networks, *plan.config.models]
    close = get_close_matches(named, names, 1)
    remedy = f"did you mean '{close[0]}'? " if close else ""
    raise InputError(named, "no such variant or model", f"{remedy}`tvmake status` lists the variants")
