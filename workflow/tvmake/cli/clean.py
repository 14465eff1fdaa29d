"""``tvmake clean``: list and delete the files that runs left behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmake.cli.configs import AsJson, ConfigFiles, Directory, Settings

if TYPE_CHECKING:
    from tvmake.plan.cleanup import Leftovers


def clean(
    stale: Annotated[
        bool,
        typer.Option("--stale", help="Only files that the config no longer needs: removed variants, kernels, logs."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Delete the files; without it, they are only listed.")
    ] = False,
    config: ConfigFiles = None,
    settings: Settings = None,
    directory: Directory = Path(),
    as_json: AsJson = False,
) -> None:
    """List the files that runs made under the directories of results and logs; with --yes, delete them.

    Tuning records, models, datasets and files that tvmake does not make are always kept.
    """
    import json
    from contextlib import nullcontext

    from tvmake.cli.configs import plan_in
    from tvmake.engine.run_mutex import only_run
    from tvmake.plan.cleanup import by_model, leftovers, remove
    from tvmake.report import quantities

    plan = plan_in(directory, config, settings)
    with only_run() if yes else nullcontext():
        leftover = leftovers(plan, stale)
        listed = list(leftover.removable if stale else by_model(leftover.removable, plan.config))
        for path, size in () if as_json else listed:
            typer.echo(f"{quantities.size(size):>9}  {path}")
        if yes:
            for path, _ in leftover.removable:
                remove(Path(path), plan.config)
    if as_json:
        rows = [{"path": str(path), "bytes": size} for path, size in listed]
        typer.echo(
            json.dumps(
                {"deleted": yes, "removable": rows, "kept": leftover.kept, "foreign": leftover.foreign}, indent=2
            )
        )
        return
    _print_sums(leftover, stale, yes)


def _print_sums(leftover: Leftovers, stale: bool, yes: bool) -> None:
    from tvmake.report import quantities

    kind = "stale" if stale else "made by runs"
    if not leftover.removable:
        typer.echo(f"nothing is {kind}")
    else:
        outcome = "deleted" if yes else "--yes deletes them"
        typer.echo(f"{len(leftover.removable)} {kind}, {quantities.size(leftover.size)}: {outcome}")
    if leftover.kept:
        typer.echo(f"{leftover.kept} needed by the config: kept")
    if leftover.foreign:
        typer.echo(f"{leftover.foreign} not made by tvmake: kept")
    if not stale and not yes and leftover.removable:
        typer.echo("--stale lists only files that the config no longer needs")
