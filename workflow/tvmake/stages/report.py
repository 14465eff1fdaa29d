"""Report: gather every variant's figures into a summary, a table and a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmake.artifact import paths
from tvmake.config.requests.reporting import ReportRequest, VariantRow
from tvmake.stages.descriptor import Files, Input, JobContext, Log, Output, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tvmake.report.results import PathOf
    from tvmake.report.rows import Summary, SummaryRow


def report(request: ReportRequest, summary: Path, table: Path, page: Path) -> Summary:
    """Write ``summary`` (JSON), ``table`` (CSV) and ``page`` (one HTML file that needs no network).

    A variant that misses its goals is reported as failed; that is a result, not a failure of the stage.

    Raises:
        InputError: a variant's file is missing or damaged.
    """
    return write_report(request, (), summary, table, page)


def write_report(
    request: ReportRequest, unmade: Sequence[SummaryRow], summary: Path, table: Path, page: Path
) -> Summary:
    """Write the same of a run that failed.

    Args:
        request: the variants that were made.
        unmade: the rows of those that were not.
        summary: the JSON file to write.
        table: the CSV file to write.
        page: the HTML file to write.

    Raises:
        InputError: a variant's file is missing or damaged.
    """
    from tvmake.artifact import stage_json
    from tvmake.report.cache_use import cache_use
    from tvmake.report.page import render_page
    from tvmake.report.results import read_results
    from tvmake.report.rows import summarise, table_csv
    from tvmake.storage.files import write_text

    results = read_results(request, path_in(request.results))
    gathered = summarise(results, cache_use(request.variants), unmade)
    stage_json.save(gathered, summary)
    write_text(table, table_csv(gathered))
    write_text(page, render_page(gathered, results))
    return gathered


def path_in(results: str) -> PathOf:
    """Where the artifacts of variants lie in a results directory."""
    from tvmake.stages import registry

    def path_of(artifact: str, row: VariantRow) -> str:
        return registry.path(artifact, results, model=row.model, precision=row.precision, target=row.target)

    return path_of


def _files(given: Mapping[str, Any]) -> list[Path]:
    """What there is of each variant, of the files that it is reported by."""
    request: ReportRequest = given["request"]
    path_of = path_in(request.results)
    named = [Path(path_of(name, row)) for row in request.variants for entry in STAGE.inputs for name in entry.names]
    return [path for path in named if path.is_file()]


def report_request(job: JobContext) -> ReportRequest:
    """Which variants there are, and what was made of each."""
    rows = [
        VariantRow(
            model=variant.model,
            precision=variant.precision,
            target=variant.target,
            device=variant.device_name,
            is_tuned=variant.is_tuned,
            layout=variant.layout_choice,
        )
        for variant in job.variants
    ]
    return ReportRequest(results=job.config.results, variants=rows)


def _of(artifact: str, has: Callable[[JobContext], bool] = lambda _: True) -> Input:
    """One file of every variant that has it."""
    files: Files = lambda job: [variant.file(artifact) for variant in job.variants if has(variant)]  # noqa: E731
    return Input(artifact, files=files)


STAGE = Stage(
    name="report",
    summary="Gather every variant's figures.",
    function=report,
    inputs=(
        _of("package.tar"),
        _of("mod.json"),
        _of("best.json", lambda variant: variant.is_tuned),
        _of("layout.json", lambda variant: variant.chooses_layout),
        _of("numerics.json", lambda variant: variant.device_name is not None),
        _of("latency.json", lambda variant: variant.device_name is not None),
    ),
    outputs=(
        Output("summary.json", paths.RUN, "summary", "Summary to write (JSON)."),
        Output("summary.csv", paths.RUN, "table", "Summary to write (CSV)."),
        Output("index.html", paths.RUN, "page", "Page to write (HTML)."),
    ),
    logs=(Log("logs/report.log"),),
    is_goal=True,
    request_model=ReportRequest,
    request=report_request,
    subject=lambda _: "",
    reads=_files,
    holds_weights=False,
)
