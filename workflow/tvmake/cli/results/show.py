"""``tvmake show``: the summary of a finished run."""

from pathlib import Path
from typing import Annotated

import typer

from tvmake.cli.configs import AsJson
from tvmake.cli.terminal import print_json


def show(
    results: Annotated[Path, typer.Argument(help="A results directory, or a summary.json.")] = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Print the summary table of a finished run, and where its models came from."""
    from tvmake.cli.configs import print_note
    from tvmake.process.output import printable
    from tvmake.report.confirmed import unconfirmed
    from tvmake.report.load import SUMMARY, load_sources, load_summary
    from tvmake.report.terminal import print_summary

    summary = load_summary(results)
    sources = load_sources(results, summary)
    if as_json:
        found = {name: source.model_dump(mode="json") for name, source in sources.items()}
        print_json({**summary.model_dump(mode="json"), "sources": found})
        return
    print_summary(summary)
    for model, source in sources.items():
        typer.echo(printable(f"{model}: {source.summary()}"))
    if changed := unconfirmed(results / SUMMARY if results.is_dir() else results):
        named = f"{len(changed)} files, {changed[0]} among them," if len(changed) > 1 else changed[0]
        print_note(
            f"these figures are of an earlier run: {named} changed or went away since; `tvmake make` makes them anew"
        )
