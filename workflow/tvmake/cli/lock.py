"""``tvmake lock``: everything that determined a run, in one file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmake.cli.configs import ConfigFiles, Settings

if TYPE_CHECKING:
    from tvmake.plan.plan import Plan


def lock(
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.", dir_okay=False)] = Path("run.lock"),
    config: ConfigFiles = None,
    settings: Settings = None,
) -> None:
    """Write down what determined the finished run: config, inputs, versions, compilers, records; and what came of it.

    `tvmake make --locked run.lock` makes it again and compares every byte.
    """
    from tvmake.cli.configs import config_files, overlay
    from tvmake.config.load import load_layers
    from tvmake.lock.document import write_lock
    from tvmake.lock.make import lock_run
    from tvmake.plan.plan import Plan

    plan = Plan(load_layers(config_files(config), overlay(settings)))
    _check_finished(plan, config, settings)
    made = lock_run(plan)
    write_lock(made, output)
    typer.echo(
        f"{output}: {len(made.artifacts)} files of {len(plan.variants)} variants, {len(made.origins.inputs)} inputs,"
        f" records of {len(made.records)} variants"
    )
    for where, revision in (("tvmake's code", made.origins.tvmake.revision), ("this checkout", made.origins.project)):
        if revision is not None and revision.modified:
            typer.echo(
                f"note: {where} differs from commit {revision.commit[:12]}; commit first to find it again", err=True
            )
            break


def _check_finished(plan: Plan, config: list[Path] | None, settings: list[str] | None) -> None:
    """Refuse results that the workflow itself would make anew."""
    from tvmake.errors import InputError
    from tvmake.lock.rebuild import packages

    given = [word for file in config or () for word in ("--config", str(file))]
    given += [word for setting in settings or () for word in ("--set", setting)]
    done = subprocess.run(
        [sys.executable, "-c", "from tvmake.cli import main; main()", "make", *packages(plan), *given, "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        first = (done.stderr.strip().splitlines() or ["no reason given"])[0].removeprefix("error: ")
        raise InputError("this run", f"cannot be looked at: {first}")
    if "nothing to do" not in done.stderr:
        waiting = next((line for line in done.stderr.splitlines() if line.startswith("would ")), "")
        raise InputError(
            plan.config.results, f"is not up to date{f' ({waiting})' if waiting else ''}", "run `tvmake make` first"
        )
