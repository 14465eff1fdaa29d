"""``tvmake diff``: compare two runs."""

import math
from pathlib import Path
from typing import Annotated

import typer

from tvmake.cli.configs import AsJson
from tvmake.cli.terminal import print_json

Run = Annotated[Path, typer.Argument(help="A summary.json, or a results directory with one.")]


def _finite(percent: float | None) -> float | None:
    if percent is not None and not math.isfinite(percent):
        raise typer.BadParameter(f"{percent} is not a finite percentage")
    return percent


def diff(
    old: Run,
    new: Run,
    fail_on_regression: Annotated[
        float | None,
        typer.Option(
            "--fail-on-regression",
            metavar="PERCENT",
            min=0,
            callback=_finite,
            help="Exit with 4 if a variant is slower by more than PERCENT and by more than noise, or misses goals that it met.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two runs: latency, numerics, verdicts, sizes."""
    from dataclasses import asdict

    from tvmake.cli.configs import print_note
    from tvmake.report.diff import compare
    from tvmake.report.diff_text import print_diff
    from tvmake.report.load import load_summary
    from tvmake.report.summary_check import describe_changes

    comparison = compare(load_summary(old), load_summary(new))
    if as_json:
        print_json(asdict(comparison))
    else:
        print_diff(comparison)
    for run in (old, new):
        if note := describe_changes(run):
            print_note(f"{run}: {note}")
    code = comparison.exit_code(fail_on_regression)
    if fail_on_regression is not None:
        for variant in comparison.without_comparison():
            print_note(f"{variant.variant}: its latency is {variant.latency}; --fail-on-regression ignores it")
    raise typer.Exit(code)
