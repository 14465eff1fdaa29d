"""``tvmake clean``: list what runs have left behind, and delete it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmake.cli.configs import AsJson, ConfigFiles, Directory, Settings

if TYPE_CHECKING:
    from tvmake.plan.cleanup import Leftovers


def clean(
    stale: Annotated[
        bool, typer.Option("--stale", help="Only what the config no longer asks for: removed variants, kernels, logs.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete it; without this, it is listed only.")] = False,
    config: ConfigFiles = None,
    settings: Settings = None,
    directory: Directory = Path(),
    as_json: AsJson = False,
) -> None:
    """List what runs have made under the results directory and logs/; with --yes, delete it.

    Tuning records, models, datasets and files that tvmake does not make stay in any case.
    """
    import json
    from contextlib import nullcontext

    from tvmake.cli.configs import plan_in
    from tvmake.engine.run_mutex import only_run
    from tvmake.plan.cleanup import by_model, leftovers, remove

    plan = plan_in(directory, config, settings)
    results = plan.config.results
    with only_run() if yes else nullcontext():
        found = leftovers(plan, stale)
        listed = list(found.removable if stale else by_model(found.removable, results))
        for path, size in () if as_json else listed:
            typer.echo(f"{_text(size):>9}  {path}")
        if yes:
            for path, _ in found.removable:
                remove(Path(path), results)
    if as_json:
        rows = [{"path": str(path), "bytes": size} for path, size in listed]
        typer.echo(
            json.dumps({"deleted": yes, "removable": rows, "kept": found.kept, "foreign": found.foreign}, indent=2)
        )
        return
    _print_sums(found, stale, yes)


def _text(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    for unit, scale in (("kB", 1e3), ("MB", 1e6)):
        if size < 1000 * scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size / 1e9:.1f} GB"


def _print_sums(found: Leftovers, stale: bool, yes: bool) -> None:
    kind = "stale" if stale else "made by runs"
    if not found.removable:
        typer.echo(f"nothing is {kind}")
    else:
        outcome = "deleted" if yes else "--yes deletes them"
        typer.echo(f"{len(found.removable)} {kind}, {_text(found.size)}: {outcome}")
    if found.kept:
        typer.echo(f"{found.kept} that the config asks for are kept")
    if found.foreign:
        typer.echo(f"{found.foreign} that tvmake does not make are left alone")
    if not stale and not yes and found.removable:
        typer.echo("--stale names only what the config no longer asks for")
