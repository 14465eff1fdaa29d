"""``tvmake explain``: what made a file, of what, and why it would be made again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cli import completion
from tvmake.cli.configs import AsJson, ConfigFiles, Directory, Settings
from tvmake.cli.terminal import print_json

if TYPE_CHECKING:
    from tvmake.engine.up_to_date.explanation import Explanation
    from tvmake.engine.up_to_date.job_states import JobState

CHANGES_SHOWN = 12
"""For each job."""


def explain(
    file: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.results,
            help="A file below results or logs, or a variant (model/precision/target) for its package.",
        ),
    ],
    config: ConfigFiles = None,
    settings: Settings = None,
    directory: Directory = Path(),
    as_json: AsJson = False,
) -> None:
    """Say what made a file, when and of what; whether it is up to date; and what differs where it is not.

    Nothing is made, and Snakemake is not asked: this compares the records of jobs with config, sources, code and files as they
    are now.
    """
    import os

    from tvmake.cli.configs import plan_in
    from tvmake.engine.up_to_date.explanation import explain_file
    from tvmake.process.output import printable

    typed = Path.cwd() / file
    plan = plan_in(directory, config, settings)
    found = explain_file(plan, file, os.path.relpath(typed))
    if as_json:
        print_json(_values(found))
        return
    for line in _lines(found):
        typer.echo(printable(line))


def _lines(found: Explanation) -> Iterator[str]:
    yield found.file
    facts: list[tuple[str, str]] = []
    if found.sha256 is not None:
        facts.append(("content", f"{found.bytes} bytes, sha256 {found.sha256[:12]}"))
    job, record = found.state.job, found.record
    facts.append(("stage", " ".join((job.stage, *(f"{name}={value}" for name, value in job.wildcards.items())))))
    if record is not None:
        how = ", from the cache" if found.is_from_cache else ""
        facts.append(("made", f"{_moment(record.began)}, in {record.ended - record.began:.1f} s{how}"))
        facts.append(("command", record.command))
    if Path(job.log).is_file():
        facts.append(("log", job.log))
    for number, (name, digest) in enumerate(found.inputs.items()):
        facts.append(("" if number else "of", f"{name}  {digest[:12] if digest else '(not recorded)'}"))
    for what, text in facts:
        yield f"  {what:<8} {text}"
    yield f"  {'state':<8} {found.verdict()}"
    for cause in found.state.causes():
        label = "" if cause is found.state else f"{_name(cause)}: "
        for change in cause.changes[:CHANGES_SHOWN]:
            yield f"  {'':<8} - {label}{change}"
        if len(cause.changes) > CHANGES_SHOWN:
            yield f"  {'':<8} - {label}and {len(cause.changes) - CHANGES_SHOWN} more"
    for line in found.failure:
        yield f"  {'':<8} {line}"


def _name(state: JobState) -> str:
    return " ".join((state.job.stage, *state.job.wildcards.values()))


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _values(found: Explanation) -> dict[str, Any]:
    record, state = found.record, found.state
    return {
        "file": found.file,
        "sha256": found.sha256,
        "bytes": found.bytes,
        "stage": state.job.stage,
        "wildcards": dict(state.job.wildcards),
        "state": state.state,
        "verdict": found.verdict(),
        "command": record and record.command,
        "began": record and record.began,
        "seconds": record and round(record.ended - record.began, 3),
        "from_cache": found.is_from_cache,
        "log": state.job.log,
        "inputs": dict(found.inputs),
        "because": [
            {"stage": cause.job.stage, "wildcards": dict(cause.job.wildcards), "changes": _changes(cause)}
            for cause in state.causes()
        ],
        "failure": list(found.failure),
    }


def _changes(state: JobState) -> Sequence[dict[str, Any]]:
    from dataclasses import asdict

    return [asdict(change) for change in state.changes]
