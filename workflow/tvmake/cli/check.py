"""``tvmake check``: is the config right, and what would it make?"""

from typing import Annotated

import typer

from tvmake.cli.configs import ConfigFiles, Settings


def check(
    config: ConfigFiles = None,
    settings: Settings = None,
    files: Annotated[bool, typer.Option("--files", help="List every file that would be made.")] = False,
) -> None:
    """Validate a config and list what it would make."""
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    from tvmake.cli.configs import config_files, overlay
    from tvmake.config.load import load_layers, one_or_many
    from tvmake.errors import InputError, TvmakeError
    from tvmake.plan.plan import Plan

    paths = config_files(config)
    plan = Plan(load_layers(paths, overlay(settings)))
    missing: list[TvmakeError] = [
        InputError(f"models.{model}", f"no such file: {file}")
        for model in plan.config.models
        for file in dict.fromkeys(
            plan.reference_files(model) + plan.pass_files("transform", model) + plan.pass_files("build", model)
        )
        if not Path(file).exists()
    ]
    if missing:
        raise one_or_many(missing)
    table = Table("model", "precision", "target", "runs on", box=None, pad_edge=False, header_style="bold")
    for variant in plan.variants:
        table.add_row(
            variant.model, variant.precision, variant.target, plan.device_of(variant.target) or "(package only)"
        )
    console = Console(soft_wrap=True)
    console.print(table)
    if files:
        for artifact in ("package", "numerics", "latency"):
            for file in plan.results_of(artifact):
                console.print(file, highlight=False)
        for file in plan.goals():
            console.print(file, highlight=False)
    console.print(
        f"{', '.join(map(str, paths))}: ok; {len(plan.variants)} variants of {len(plan.config.models)} models, "
        f"{len(plan.runnable)} of them run on a device",
        highlight=False,
    )
