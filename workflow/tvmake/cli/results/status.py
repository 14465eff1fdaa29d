"""``tvmake status``: show which results exist for each variant and stage, or the summary of a finished run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvmake.cli.configs import AsJson, ConfigFiles, Directory, Settings
from tvmake.cli.terminal import print_json

if TYPE_CHECKING:
    from tvmake.engine.up_to_date.job_states import JobState, State
    from tvmake.plan.plan import Plan

STYLES = {"made": "green", "failed": "bold red", "outdated": "yellow", "missing": "yellow", "running": "cyan"}

WORST_FIRST: tuple[State, ...] = ("failed", "running", "missing", "outdated", "made")


def status(
    results: Annotated[
        Path | None,
        typer.Argument(metavar="RESULTS", help="A results directory or a summary.json: print the table of that run."),
    ] = None,
    variant: Annotated[
        str, typer.Argument(metavar="VARIANT", help="Only the rows of this variant or model. RESULTS may be omitted.")
    ] = "",
    config: ConfigFiles = None,
    settings: Settings = None,
    directory: Directory = Path(),
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the reason for each job that is not made.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show which results are made, failed, missing or outdated, by variant and stage; with RESULTS, a finished run's table.

    The table needs no config. It lists latency, numerics and size of each variant, and the sources of the models.

    A result is also ``outdated`` if it depends on a job that would run; it is kept if that job's results do not change. Jobs
    that several variants share, such as a model's import, count once in the sum.
    """

    if results is not None:
        from tvmake.cli.results.summary import print_run

        print_run(results, variant, as_json)
        return
    from tvmake.cli.configs import plan_in
    from tvmake.engine.up_to_date.job_states import STATES, job_states
    from tvmake.engine.up_to_date.scope import jobs_of

    plan = plan_in(directory, config, settings)
    states = job_states(jobs_of(plan, plan.variants))
    by_outputs = {state.job.outputs: state for state in states}
    variants = {str(variant): [by_outputs[job.outputs] for job in plan.jobs(variant)] for variant in plan.variants}
    rows = {**variants, "report": [by_outputs[job.outputs] for job in plan.run_jobs()]}
    counts = Counter(state.state for state in states)
    if as_json:
        whole = {
            "variants": {name: _variant_values(states) for name, states in rows.items()},
            "jobs": {state: counts[state] for state in STATES},
        }
        print_json(whole)
        return
    _print(rows)
    for line in _unscheduled_warnings(plan):
        typer.echo(line, err=True)
    if verbose:
        for line in _reasons(states):
            typer.echo(line)
    _print_totals(variants, counts)


def _unscheduled_warnings(plan: Plan) -> Iterator[str]:
    """Warn of each package that spends most of its time in kernels without a schedule."""
    from tvmake.artifact.manifest import Unscheduled
    from tvmake.process.output import printable
    from tvmake.report.unscheduled import is_alarming, unscheduled_lines

    for variant in plan.variants:
        file = Path(plan.file("mod.json", **vars(variant)))
        with suppress(OSError, ValueError, AttributeError):  # commands that read the whole manifest report its errors
            part = Unscheduled.model_validate(json.loads(file.read_bytes()).get("unscheduled") or {})
            if is_alarming(part.time_share):
                yield from (printable(f"warning: {variant}: {line}") for line in unscheduled_lines(part))


def _state(jobs: Sequence[JobState]) -> State:
    """State of a variant: that of its worst job."""
    states = {state.state for state in jobs}
    return next(state for state in WORST_FIRST if state in states)


def _stages(jobs: Sequence[JobState]) -> Mapping[str, Counter[str]]:
    by_stage: dict[str, Counter[str]] = {}
    for state in jobs:
        by_stage.setdefault(state.job.stage, Counter())[state.state] += 1
    return by_stage


def _variant_values(jobs: Sequence[JobState]) -> dict[str, Any]:
    return {
        "state": _state(jobs),
        "stages": {stage: dict(counts) for stage, counts in _stages(jobs).items()},
        "because": [
            f"{' '.join((cause.job.stage, *cause.job.wildcards.values()))}: {change}"
            for state in jobs
            if state.state != "made" and state.changes
            for cause in [state]
            for change in cause.changes
        ],
    }


def _print(rows: Mapping[str, Sequence[JobState]]) -> None:
    from tvmake.cli.terminal import open_console
    from tvmake.report.console import print_lines

    lines = []
    for name, jobs in rows.items():
        state = _state(jobs)
        finished = sum(job.state == "made" for job in jobs)
        stages = "; ".join(_list_unfinished(jobs)) if finished < len(jobs) else ""
        lines.append(((name, ""), (state, STYLES[state]), (f"{finished}/{len(jobs)}", ""), (stages, "")))
    print_lines(open_console(), ("variant", "state", "jobs", "stages"), lines)


def _list_unfinished(jobs: Sequence[JobState]) -> Iterator[str]:
    by_stage = _stages(jobs)
    for state in WORST_FIRST[:-1]:
        names = [
            f"{stage} ({counts[state]})" if counts[state] > 1 else stage
            for stage, counts in by_stage.items()
            if counts[state]
        ]
        if names:
            yield f"{state}: {', '.join(names)}"


def _reasons(states: Sequence[JobState]) -> Iterator[str]:
    for state in states:
        if state.state != "made" and state.changes and not (state.state == "missing" and state.waits_for):
            label = " ".join((state.job.stage, *state.job.wildcards.values()))
            for change in state.changes:
                yield f"{label}: {state.state}: {change}"


def _print_totals(variants: Mapping[str, Sequence[JobState]], jobs: Counter[State]) -> None:
    from tvmake.process.output import counted

    def counts(states: Counter[State]) -> str:
        return ", ".join(f"{states[state]} {state}" for state in reversed(WORST_FIRST) if states[state])

    states = Counter(_state(jobs) for jobs in variants.values())
    typer.echo(f"{counted(len(variants), 'variant')}: {counts(states)}; {counted(jobs.total(), 'job')}: {counts(jobs)}")
