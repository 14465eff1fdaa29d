"""Earlier summaries of the same results, stored beside the current one so that runs can be compared.

A run is stored if its rows differ from the one before: rewriting the report is not a new run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmake.artifact.paths import HISTORY
from tvmake.errors import InputError
from tvmake.report.load import HISTORY_FORM, HISTORY_NAME, load_summary
from tvmake.report.rows import Summary, SummaryRow
from tvmake.storage.notes.state_file import write_state

DIRECTORY = HISTORY
"""Beside summary.json; a file a run, by the time it ended."""

KEPT = 50
"""Runs; older ones are deleted."""


@dataclass(frozen=True)
class EarlierRuns:
    """The stored summaries of earlier runs."""

    runs: list[Summary]
    """The oldest first."""
    left_out: list[InputError]
    """Why others cannot be read: damaged or altered, or of another version."""


def earlier_runs(results: Path) -> EarlierRuns:
    """The stored summaries."""
    runs, left_out = [], []
    for path in _files(results):
        try:
            runs.append(load_summary(path))
        except InputError as error:
            left_out.append(error)
    return EarlierRuns(sorted(runs, key=lambda run: run.created_at), left_out)


def keep_summary(summary: Summary, results: Path) -> None:
    """Keep a summary for later runs to be compared with.

    Raises:
        MachineError: it cannot be written there.
    """
    known = earlier_runs(results).runs
    if known and known[-1].rows == summary.rows:
        return
    file = results / DIRECTORY / f"{summary.created_at.replace(':', '')}.json"
    write_state(file, HISTORY_FORM, summary.model_dump(mode="json"))
    for old in _files(results)[:-KEPT]:
        old.unlink(missing_ok=True)


def _files(results: Path) -> list[Path]:
    """The stored files, the oldest first; files with other names are ignored."""
    paths = (results / DIRECTORY).glob("*.json")
    return sorted(path for path in paths if HISTORY_NAME.fullmatch(path.stem) and path.is_file())


def measurements(row: SummaryRow, runs: Sequence[Summary]) -> list[tuple[str, SummaryRow]]:
    """A variant's measurements with their times, the oldest first.

    Runs that reused an earlier measurement do not count.

    Args:
        row: the variant's current row, which is not part of the result.
        runs: the oldest first.
    """
    measured: list[tuple[str, SummaryRow]] = []
    for run in runs:
        for earlier in run.rows:
            is_known = measured and _same_measurement(earlier, measured[-1][1])
            if earlier.variant == row.variant and earlier.p50_ms is not None and not is_known:
                measured.append((run.created_at, earlier))
    if measured and _same_measurement(measured[-1][1], row):
        measured.pop()
    return measured


def _same_measurement(first: SummaryRow, second: SummaryRow) -> bool:
    figures = ("package_sha256", "p50_ms", "mean_ms", "min_ms", "cv")
    return all(getattr(first, name) == getattr(second, name) for name in figures)
