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
    from rich.console import Console
    from rich.table import Table

    from tvmake.cli.configs import check_stores, config_files, missing_inputs, overlay
    from tvmake.config.load import load_layers
    from tvmake.plan.plan import Plan

    paths = config_files(config)
    plan = Plan(load_layers(paths, overlay(settings)))
    if missing := missing_inputs(plan):
        raise missing
    check_stores(plan)
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
