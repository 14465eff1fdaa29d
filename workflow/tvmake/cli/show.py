"""``tvmake show``: the summary of a finished run."""

from pathlib import Path
from typing import Annotated

import typer


def show(
    results: Annotated[Path, typer.Argument(help="A results directory, or a summary.json.")] = Path("results"),
) -> None:
    """Print the summary table of a finished run, and where its models came from."""
    from tvmake.cli.record_tables import printable
    from tvmake.report.load import load_sources, load_summary
    from tvmake.report.terminal import print_summary

    summary = load_summary(results)
    print_summary(summary)
    for model, source in load_sources(results, summary).items():
        typer.echo(printable(f"{model}: {source.said()}"))
