"""Which config files a command works on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.errors import InputError, TvmakeError, UsageError

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


def overlay(settings: list[str] | None) -> dict[str, Any]:
    """``--set`` options as one config layer.

    Raises:
        UsageError: an option is not KEY=VALUE, or its value is not YAML.
    """
    import yaml

    layer: dict[str, Any] = {}
    for setting in settings or ():
        key, equals, text = setting.partition("=")
        if not equals or not key or "" in key.split("."):
            raise UsageError(f"--set {setting}", "expected KEY=VALUE", "for example: --set benchmark.repeat=100")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise UsageError(f"--set {setting}", "the value is not YAML") from None
        place = layer
        *parents, last = key.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return layer


def missing_inputs(plan: Plan) -> TvmakeError | None:
    """The error for models, datasets and pass files that the config names and that do not exist, if there are any."""
    from tvmake.config.load import one_or_many

    missing = [
        InputError(f"models.{model}", f"no such file: {file}")
        for model in plan.config.models
        for file in dict.fromkeys(
            plan.reference_files(model) + plan.pass_files("transform", model) + plan.pass_files("build", model)
        )
        if not Path(file).exists()
    ]
    return one_or_many(missing) if missing else None


def check_stores(plan: Plan) -> None:
    """Refuse a records store that can be none, before each kernel's job does.

    Raises:
        InputError: it is no directory.
    """
    from tvmake.records.store import open_store

    for target in dict.fromkeys(variant.target for variant in plan.variants if plan.is_tuned(variant)):
        open_store(plan.tuning(target).store)
