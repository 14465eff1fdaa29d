"""``tvmake logs``: the logs of a variant's jobs, those of failures first."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvmake.cli import completion
from tvmake.cli.configs import AsJson, ConfigFiles, Directory, Settings

if TYPE_CHECKING:
    from tvmake.plan.plan import Plan, Variant

POLL_S = 0.5

RANKS = {"failed": 0, "cut short": 1, "interrupted": 1, "ended": 2}
"""Which logs come first, by how their jobs ended."""


def logs(
    variant: Annotated[str, typer.Argument(autocompletion=completion.variants, help="model/precision/target, or the model alone.")],
    stage: Annotated[str | None, typer.Argument(help="Only the logs of this stage, e.g. build.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on printing what the first of them gets, until Ctrl-C.")] = False,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Print all logs, not only the first.")] = False,
    list_only: Annotated[bool, typer.Option("--list", "-l", help="Print the names of the logs, not what they say.")] = False,
    config: ConfigFiles = None,
    settings: Settings = None,
    directory: Directory = Path(),
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Print the log of the job that failed, or of the one that wrote last.

    Logs of failures come first, the newest before older ones, then those of jobs that did not end, then the others.
    """
    import json

    from tvmake.cli.configs import named_variants, plan_in
    from tvmake.engine.progress.job_log import ending
    from tvmake.errors import InputError
    from tvmake.process.output import counted

    plan = plan_in(directory, config, settings)
    names = _logs(plan, named_variants(plan, variant), stage)
    there = [Path(name) for name in names if Path(name).is_file()]
    if not there:
        raise InputError(variant, f"no log of {counted(len(names), 'job')} is there yet", "`tvmake make` writes them")
    ordered = sorted(there, key=lambda path: (RANKS[ending(path)], -path.stat().st_mtime))
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
    if follow:
        _follow(shown[0])
    elif len(ordered) > len(shown):
        print(f"{counted(len(ordered) - 1, 'other log')}: --list names them, --all prints them", file=sys.stderr)


def _logs(plan: Plan, variants: Sequence[Variant], stage: str | None) -> list[str]:
    from tvmake.errors import InputError

    jobs = [job for variant in variants for job in plan.jobs(variant)]
    if stage is not None:
        stages = dict.fromkeys(job.stage for job in jobs)
        if stage not in stages:
            raise InputError(stage, "the variant has no such stage", f"it has {', '.join(stages)}")
        jobs = [job for job in jobs if job.stage == stage]
    return list(dict.fromkeys(job.log for job in jobs))


def _follow(path: Path) -> None:
    """Print what is written to a log from now on; a job that starts again begins a new one."""
    position = path.stat().st_size
    try:
        while True:
            time.sleep(POLL_S)
            size = path.stat().st_size if path.exists() else 0
            position = 0 if size < position else position
            if size > position:
                with path.open(errors="replace") as file:
                    file.seek(position)
                    sys.stdout.write(file.read())
                    sys.stdout.flush()
                    position = file.tell()
    except KeyboardInterrupt:
        return
