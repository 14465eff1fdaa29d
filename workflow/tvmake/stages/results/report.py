"""Report: gather the results of all variants into a summary, a table and a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.config.requests.reporting import ReportRequest
from tvmake.stages.descriptor import Input, Log, Output, Stage
from tvmake.stages.results.gathering import RESULTS, files_of, gathering_request, path_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tvmake.report.results import VariantResults
    from tvmake.report.rows import Summary, SummaryRow
    from tvmake.stages.context import JobContext


def report(request: ReportRequest, selection: Path, summary: Path, table: Path, page: Path) -> Summary:
    """Write ``summary`` (JSON), ``table`` (CSV) and ``page`` (a self-contained HTML file).

    The summary is also stored in ``history/`` beside it, for comparison with later runs.

    A variant that misses its goals is reported as failed; the stage itself succeeds.

    Raises:
        InputError: a variant's file is missing or damaged.
    """
    return write_report(request, selection, (), summary, table, page)


def write_report(
    request: ReportRequest,
    selection: Path,
    unmade: Sequence[SummaryRow],
    summary: Path,
    table: Path,
    page: Path,
    results: Sequence[VariantResults] | None = None,
) -> Summary:
    """Write the report of a run, which may have failed.

    Args:
        request: the variants that were made.
        selection: the choices, as select wrote them.
        unmade: rows of the variants that were not made.
        summary: the JSON file to write.
        table: the CSV file to write.
        page: the HTML file to write.
        results: the results of the request's variants, if they were read already.

    Raises:
        InputError: a variant's file is missing or damaged.
    """
    from tvmake.artifact import stage_json
    from tvmake.report.cache_use import cache_use
    from tvmake.report.history import earlier_runs, keep_summary
    from tvmake.report.packages import package_rows
    from tvmake.report.page.results_page import render_page
    from tvmake.report.results import read_results
    from tvmake.report.rows import causes_of, summarise, table_csv
    from tvmake.report.selection import Selection
    from tvmake.storage.files import write_text

    path_of = path_in(request.results)
    results = read_results(request, path_of) if results is None else results
    packages = package_rows(request, results, causes_of(unmade), path_of)
    chosen = stage_json.load(Selection, selection).chosen
    kept = earlier_runs(summary.parent)
    gathered = summarise(results, cache_use(request.variants, Path(request.logs)), unmade, chosen, packages)
    left_out = [f"excluded from the earlier runs: {error.where}: {error.problem}" for error in kept.left_out]
    gathered = gathered.model_copy(update={"warnings": [*gathered.warnings, *left_out]})
    stage_json.save(gathered, summary)
    write_text(table, table_csv(gathered))
    title = request.title or Path.cwd().name or "Results"
    write_text(page, render_page(gathered, results, title=title, directory=request.results, runs=kept.runs))
    keep_summary(gathered, summary.parent)
    return gathered


def report_request(job: JobContext) -> ReportRequest:
    """The variants, the artifacts of each, and the page's title."""
    return gathering_request(job).model_copy(update={"title": job.config.title, "logs": job.config.logs})


STAGE = Stage(
    name="report",
    summary="Gather the results of all variants.",
    function=report,
    inputs=(*RESULTS, Input("selection.json", "selection", help="The choices, from the select stage.")),
    outputs=(
        Output("summary.json", paths.RUN, "summary", "Summary to write (JSON)."),
        Output("summary.csv", paths.RUN, "table", "Summary to write (CSV)."),
        Output("index.html", paths.RUN, "page", "Page to write (HTML)."),
    ),
    logs=(Log("report.log"),),
    is_goal=True,
    request_model=ReportRequest,
    request=report_request,
    subject=lambda _: "",
    reads=files_of(RESULTS),
    holds_weights=False,
)
