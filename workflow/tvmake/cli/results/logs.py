"""``tvmake logs``: print the logs of a variant's jobs, failures first."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmake.cli import completion
from tvmake.cli.configs import AsJson, ConfigFiles, Directory, Settings

if TYPE_CHECKING:
    from tvmake.plan.plan import Plan, Variant

RANKS = {"failed": 0, "cut short": 1, "interrupted": 1, "ended": 2}
"""Order of the logs, by the jobs' outcome."""


def logs(
    variant: Annotated[str, typer.Argument(autocompletion=completion.variants, help="model/precision/target, or only the model.")],
    stage: Annotated[str | None, typer.Argument(help="Only the logs of this stage, e.g. build.")] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Print all logs instead of the first.")] = False,
    list_only: Annotated[bool, typer.Option("--list", "-l", help="Print only the names of the logs.")] = False,
    config: ConfigFiles = None,
    settings: Settings = None,
    directory: Directory = Path(),
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Print the log of the job that failed, or else of the last job that wrote one.

    Logs of failed jobs come first, the newest first, then those of unfinished jobs, then the others.
    """
    import json

    from tvmake.cli.configs import named_variants, plan_in
    from tvmake.engine.progress.job_log import ending
    from tvmake.errors import InputError
    from tvmake.process.output import counted

    plan = plan_in(directory, config, settings)
    names = _log_names(plan, named_variants(plan, variant), stage)
    paths = [Path(name) for name in names if Path(name).is_file()]
    if not paths:
        raise InputError(variant, f"has no logs yet ({counted(len(names), 'job')})", "`tvmake make` writes them")
    ordered = sorted(paths, key=lambda path: (RANKS[ending(path)], -path.stat().st_mtime))
    if as_json:
        typer.echo(json.dumps([{"log": str(path), "ending": ending(path)} for path in ordered], indent=2))
        return
    if list_only:
        for path in ordered:
            typer.echo(f"{ending(path):<11}  {path}")
        return
    shown = ordered if everything else ordered[:1]
    for path in shown:
        print(f"==> {path} ({ending(path)}) <==", file=sys.stderr)
        sys.stdout.write(path.read_text(errors="replace"))
    sys.stdout.flush()
    if len(ordered) > len(shown):
        print(f"{counted(len(ordered) - 1, 'other log')}: --list lists them, --all prints them", file=sys.stderr)


def _log_names(plan: Plan, variants: Sequence[Variant], stage: str | None) -> list[str]:
    from tvmake.errors import InputError

    jobs = [job for variant in variants for job in plan.jobs(variant)]
    if stage is not None:
        stages = dict.fromkeys(job.stage for job in jobs)
        if stage not in stages:
            raise InputError(stage, "the variant has no such stage", f"it has {', '.join(stages)}")
        jobs = [job for job in jobs if job.stage == stage]
    return list(dict.fromkeys(job.log for job in jobs))
