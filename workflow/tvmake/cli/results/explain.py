"""``tvmake explain``: show how a file was made, from which inputs, and why it would be rebuilt."""

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
            help="A file in results or logs, or a variant (model/precision/target) for its package.",
        ),
    ],
    config: ConfigFiles = None,
    settings: Settings = None,
    directory: Directory = Path(),
    as_json: AsJson = False,
) -> None:
    """Show how and when a file was made, from which inputs, whether it is up to date, and if not, why.

    Nothing is built and Snakemake does not run: the records of jobs are compared with the current config, sources, code and
    files.
    """
    import os

    from tvmake.cli.configs import plan_in
    from tvmake.engine.up_to_date.explanation import explain_file
    from tvmake.process.output import printable

    typed = Path.cwd() / file
    plan = plan_in(directory, config, settings)
    explanation = explain_file(plan, file, os.path.relpath(typed))
    if as_json:
        print_json(_values(explanation))
        return
    for line in _lines(explanation):
        typer.echo(printable(line))


def _lines(explanation: Explanation) -> Iterator[str]:
    yield explanation.file
    facts: list[tuple[str, str]] = []
    if explanation.sha256 is not None:
        facts.append(("content", f"{explanation.bytes} bytes, sha256 {explanation.sha256[:12]}"))
    job, record = explanation.state.job, explanation.record
    facts.append(("stage", " ".join((job.stage, *(f"{name}={value}" for name, value in job.wildcards.items())))))
    if record is not None:
        origin = ", from the cache" if explanation.is_from_cache else ""
        facts.append(("made", f"{_format_time(record.began)}, in {record.ended - record.began:.1f} s{origin}"))
        facts.append(("command", record.command))
    if Path(job.log).is_file():
        facts.append(("log", job.log))
    for number, (name, digest) in enumerate(explanation.inputs.items()):
        facts.append(("" if number else "of", f"{name}  {digest[:12] if digest else '(not recorded)'}"))
    for name, text in facts:
        yield f"  {name:<8} {text}"
    yield f"  {'state':<8} {explanation.verdict()}"
    for cause in explanation.state.causes():
        label = "" if cause is explanation.state else f"{_name(cause)}: "
        for change in cause.changes[:CHANGES_SHOWN]:
            yield f"  {'':<8} - {label}{change}"
        if len(cause.changes) > CHANGES_SHOWN:
            yield f"  {'':<8} - {label}and {len(cause.changes) - CHANGES_SHOWN} more"
    for line in explanation.failure:
        yield f"  {'':<8} {line}"


def _name(state: JobState) -> str:
    return " ".join((state.job.stage, *state.job.wildcards.values()))


def _format_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _values(explanation: Explanation) -> dict[str, Any]:
    record, state = explanation.record, explanation.state
    return {
        "file": explanation.file,
        "sha256": explanation.sha256,
        "bytes": explanation.bytes,
        "stage": state.job.stage,
        "wildcards": dict(state.job.wildcards),
        "state": state.state,
        "verdict": explanation.verdict(),
        "command": record and record.command,
        "began": record and record.began,
        "seconds": record and round(record.ended - record.began, 3),
        "from_cache": explanation.is_from_cache,
        "log": state.job.log,
        "inputs": dict(explanation.inputs),
        "because": [
            {"stage": cause.job.stage, "wildcards": dict(cause.job.wildcards), "changes": _changes(cause)}
            for cause in state.causes()
        ],
        "failure": list(explanation.failure),
    }


def _changes(state: JobState) -> Sequence[dict[str, Any]]:
    from dataclasses import asdict

    return [asdict(change) for change in state.changes]
