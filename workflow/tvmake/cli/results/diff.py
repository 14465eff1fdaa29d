"""``tvmake diff``: what changed between two runs."""

from pathlib import Path
from typing import Annotated

import typer

Run = Annotated[Path, typer.Argument(help="A summary.json, or the results directory that holds one.")]


def diff(
    old: Run,
    new: Run,
    fail_on_regression: Annotated[
        float | None,
        typer.Option(
            "--fail-on-regression",
            metavar="PERCENT",
            min=0,
            help="Exit with 4 when a variant got slower by more than PERCENT and more than noise, or misses goals it met.",
        ),
    ] = None,
) -> None:
    """Compare two runs: latency, numerics, verdicts, sizes."""
    from tvmake.report.diff import compare
    from tvmake.report.diff_text import print_diff
    from tvmake.report.load import load_summary

    found = compare(load_summary(old), load_summary(new))
    print_diff(found)
    raise typer.Exit(found.exit_code(fail_on_regression))
