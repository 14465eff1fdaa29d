"""``tvmake lock``: record everything that determined a run in one file."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmake.cli.configs import AsJson, ConfigFiles, Settings
from tvmake.cli.terminal import output_file

if TYPE_CHECKING:
    from tvmake.plan.plan import Plan


def lock(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", parser=output_file, help="File to write.")
    ] = Path("run.lock"),
    config: ConfigFiles = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Record everything that determined the finished run (config, inputs, versions, compilers, records), and its results.

    `tvmake make --locked run.lock` rebuilds the run and compares every byte.
    """
    from tvmake.cli.configs import config_files, load_plan
    from tvmake.cli.terminal import print_json
    from tvmake.lock.document import is_lock, write_lock
    from tvmake.lock.make import lock_run
    from tvmake.plan.access import check_access
    from tvmake.process.output import counted
    from tvmake.storage.destinations import check_destination

    check_destination(output, "lock", is_lock)
    plan = load_plan(config_files(config), settings)
    check_access(plan, plan.variants)
    _check_finished(plan, config, settings)
    document = lock_run(plan)
    write_lock(document, output)
    revisions = {"tvmake's code": document.origins.tvmake.revision, "this checkout": document.origins.project}
    if as_json:
        print_json(
            {
                "lock": str(output),
                "files": len(document.artifacts),
                "variants": [str(variant) for variant in plan.variants],
                "inputs": len(document.origins.inputs),
                "variants_with_records": sorted(document.records),
                "uncommitted": [where for where, revision in revisions.items() if revision and revision.modified],
            }
        )
        return
    typer.echo(
        f"{output}: {counted(len(document.artifacts), 'file')} of {counted(len(plan.variants), 'variant')}, "
        f"{counted(len(document.origins.inputs), 'input')}, records of {counted(len(document.records), 'variant')}"
    )
    for where, revision in revisions.items():
        if revision is not None and revision.modified:
            typer.echo(
                f"note: {where} differs from commit {revision.commit[:12]}; commit first to be able to restore it",
                err=True,
            )
            break


def _check_finished(plan: Plan, config: list[Path] | None, settings: list[str] | None) -> None:
    """Refuse results that are not up to date."""
    from tvmake.errors import InputError
    from tvmake.lock.rebuild import packages
    from tvmake.process.python import python_command

    config_words = [word for file in config or () for word in ("--config", str(file))]
    config_words += [word for setting in settings or () for word in ("--set", setting)]
    dry_run = subprocess.run(
        python_command(
            "-c", "from tvmake.cli import main; main()", "make", *packages(plan), *config_words, "--dry-run"
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    if dry_run.returncode:
        first = (dry_run.stderr.strip().splitlines() or ["no reason given"])[0].removeprefix("error: ")
        raise InputError("this run", f"cannot be checked: {first}")
    if "nothing to do" not in dry_run.stderr:
        waiting = next((line for line in dry_run.stderr.splitlines() if line.startswith("would ")), "")
        raise InputError(
            plan.config.results, f"is not up to date{f' ({waiting})' if waiting else ''}", "run `tvmake make` first"
        )
