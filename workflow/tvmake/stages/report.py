"""Report: gather every variant's figures into a summary, a table and a page."""

from pathlib import Path

from tvmake.artifact import stage_json
from tvmake.artifact.files import write_text
from tvmake.config.requests.reporting import ReportRequest
from tvmake.report.cache_use import cache_use
from tvmake.report.page import render_page
from tvmake.report.results import read_results
from tvmake.report.rows import Summary, summarise, table_csv


def report(request: ReportRequest, summary: Path, table: Path, page: Path) -> Summary:
    """Write ``summary`` (JSON), ``table`` (CSV) and ``page`` (one HTML file that needs no network).

    A variant that misses its goals is reported as failed; that is a result, not a failure of the stage.

    Raises:
        InputError: a variant's file is missing or damaged.
    """
    results = read_results(request)
    gathered = summarise(results, cache_use(request.variants))
    stage_json.save(gathered, summary)
    write_text(table, table_csv(gathered))
    write_text(page, render_page(gathered, results))
    return gathered
