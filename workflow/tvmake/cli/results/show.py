"""``tvmake show``: the summary of a finished run."""

from pathlib import Path
from typing import Annotated

import typer


def show(
    results: Annotated[Path, typer.Argument(help="A results directory, or a summary.json.")] = Path("results"),
) -> None:
    """Print the summary table of a finished run, and where its models came from."""
    from tvmake.cli.configs import print_note
    from tvmake.process.output import printable
    from tvmake.report.confirmed import unconfirmed
    from tvmake.report.load import SUMMARY, load_sources, load_summary
    from tvmake.report.terminal import print_summary

    summary = load_summary(results)
    print_summary(summary)
    for model, source in load_sources(results, summary).items():
        typer.echo(printable(f"{model}: {source.summary()}"))
    if changed := unconfirmed(results / SUMMARY if results.is_dir() else results):
        named = f"{len(changed)} files, {changed[0]} among them," if len(changed) > 1 else changed[0]
        print_note(
            f"these figures are of an earlier run: {named} changed or went away since; `tvmake make` makes them anew"
        )
