"""Select: for each model and device, copy the fastest variant that meets all goals to a directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvmake.artifact import paths
from tvmake.config.requests.reporting import ReportRequest
from tvmake.stages.descriptor import Log, Output, Stage
from tvmake.stages.results.gathering import RESULTS, files_of, gathering_request, path_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tvmake.report.results import VariantResults
    from tvmake.report.rows import SummaryRow
    from tvmake.report.selection import Selection


def select(request: ReportRequest, selection: Path, best: Path) -> Selection:
    """Write all choices to ``selection`` (JSON), and the directory ``best``: ``<model>/<device>/package.tar`` with the chosen package,
    ``choice.json`` beside it with the reason for each variant that was not chosen.

    If no variant meets all goals there is only a ``choice.json``.

    Raises:
        InputError: a variant's file is missing or damaged.
    """
    return write_selection(request, (), selection, best)


def write_selection(
    request: ReportRequest,
    unmade: Sequence[SummaryRow],
    selection: Path,
    best: Path,
    results: Sequence[VariantResults] | None = None,
) -> Selection:
    """Write the selection of a run, which may have failed.

    Args:
        request: the variants that were made.
        unmade: rows of the variants that were not made.
        selection: the JSON file to write.
        best: the directory to write.
        results: the results of the request's variants, if they were read already.

    Raises:
        InputError: a variant's file is missing or damaged.
    """
    from tvmake.artifact import stage_json
    from tvmake.report.packages import package_rows
    from tvmake.report.results import read_results
    from tvmake.report.rows import causes_of, summarise
    from tvmake.report.selection import select as choose
    from tvmake.storage.files import atomic_directory, copy_file

    path_of = path_in(request.results)
    results = read_results(request, path_of) if results is None else results
    packages = package_rows(request, results, causes_of(unmade), path_of)
    chosen = choose(summarise(results, unmade=unmade).rows, results, packages)
    with atomic_directory(best) as directory:
        for choice in chosen.choices:
            destination = directory / choice.model / choice.device
            destination.mkdir(parents=True)
            stage_json.save(choice, destination / "choice.json")
            if choice.package is not None:
                copy_file(Path(request.results) / choice.package, destination / "package.tar", may_link=True)
    stage_json.save(chosen, selection)
    return chosen


def _lines(selection: Selection) -> Iterator[str]:
    for choice in selection.choices:
        yield f"best of {choice.model} on {choice.device}: {choice.chosen or 'none meets all goals'}"


STAGE = Stage(
    name="select",
    summary="Choose the fastest variant of each model on each device that meets all goals.",
    function=select,
    inputs=RESULTS,
    outputs=(
        Output("selection.json", paths.RUN, "selection", "Choices to write (JSON)."),
        Output("best", paths.RUN, "best", "Directory of the chosen packages to write.", is_directory=True),
    ),
    logs=(Log("select.log"),),
    is_goal=True,
    request_model=ReportRequest,
    request=gathering_request,
    report=_lines,
    subject=lambda _: "",
    reads=files_of(RESULTS),
    holds_weights=False,
)
