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
    """Print the summary table of a finished run and the sources of its models.

    Args:
        results: a results directory or a summary.json; or a variant or model of the results here.
        variant: a variant or a model; only its rows are printed. Empty for all.
        as_json: print JSON.

    Raises:
        InputError: the run does not exist, or has no such variant.
    """
    from tvmake.cli.configs import print_note
    from tvmake.process.output import printable
    from tvmake.report.load import SUMMARY, load_sources, load_summary
    from tvmake.report.summary_check import describe_changes
    from tvmake.report.terminal import print_summary

    if not variant and not results.exists() and not results.is_symlink() and (RESULTS / SUMMARY).exists():
        results, variant = RESULTS, str(results)
    summary = load_summary(results)
    if variant:
        summary = _select_rows(summary, variant, results)
    sources = load_sources(results, summary)
    if as_json:
        values = {name: source.model_dump(mode="json") for name, source in sources.items()}
        print_json({**summary.model_dump(mode="json"), "sources": values})
        return
    print_summary(summary)
    for model, source in sources.items():
        typer.echo(printable(f"{model}: {source.summary()}"))
    if note := describe_changes(results):
        print_note(note)


def _select_rows(summary: Summary, variant: str, results: Path) -> Summary:
    """Return the rows of a variant or model.

    Raises:
        InputError: nothing has this name.
    """
    from difflib import get_close_matches

    from tvmake.errors import InputError
    from tvmake.report.load import select_rows

    if rows := select_rows(summary, variant):
        return rows
    names = dict.fromkeys(name for row in summary.rows for name in (row.variant, row.model))
    close = get_close_matches(variant, names, 1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    problem = f"is neither a variant or model of {results}, nor a results directory"
    raise InputError(variant, problem, f"{hint}`tvmake status {results}` lists all variants")
