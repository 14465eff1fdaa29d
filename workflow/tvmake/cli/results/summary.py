"""``tvmake status RESULTS``: the summary of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tvmake.cli.terminal import print_json

if TYPE_CHECKING:
    from tvmake.report.rows import Summary

RESULTS = Path("results")


def print_run(results: Path, variant: str, as_json: bool) -> None:
    """Print the summary table of a finished run, and where its models came from.

    Args:
        results: a results directory or a summary.json; or a variant or model of the results here.
        variant: a variant or a model whose rows are printed alone; all when empty.
        as_json: print JSON for programs.

    Raises:
        InputError: there is no such run, or no such variant in it.
    """
    from tvmake.cli.configs import print_note
    from tvmake.process.output import printable
    from tvmake.report.confirmed import note_of_changes
    from tvmake.report.load import SUMMARY, load_sources, load_summary
    from tvmake.report.terminal import print_summary

    if not variant and not results.exists() and not results.is_symlink() and (RESULTS / SUMMARY).exists():
        results, variant = RESULTS, str(results)
    summary = load_summary(results)
    if variant:
        summary = _only(summary, variant, results)
    sources = load_sources(results, summary)
    if as_json:
        found = {name: source.model_dump(mode="json") for name, source in sources.items()}
        print_json({**summary.model_dump(mode="json"), "sources": found})
        return
    print_summary(summary)
    for model, source in sources.items():
        typer.echo(printable(f"{model}: {source.summary()}"))
    if note := note_of_changes(results):
        print_note(note)


def _only(summary: Summary, variant: str, results: Path) -> Summary:
    """The rows of a variant or model.

    Raises:
        InputError: there is none.
    """
    from difflib import get_close_matches

    from tvmake.errors import InputError
    from tvmake.report.load import only

    if found := only(summary, variant):
        return found
    names = dict.fromkeys(name for row in summary.rows for name in (row.variant, row.model))
    close = get_close_matches(variant, names, 1)
    meant = f"did you mean '{close[0]}'? " if close else ""
    problem = f"is neither a variant or model of {results}, nor a results directory"
    raise InputError(variant, problem, f"{meant}`tvmake status {results}` lists what there is")
