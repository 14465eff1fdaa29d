"""``tvmake show``: the summary of a finished run."""

from pathlib import Path
from typing import Annotated

import typer


def show(
    results: Annotated[Path, typer.Argument(help="A results directory, or a summary.json.")] = Path("results"),
) -> None:
    """Print the summary table of a finished run."""
    from tvmake.report.load import load_summary
    from tvmake.report.terminal import print_summary

    print_summary(load_summary(results))
