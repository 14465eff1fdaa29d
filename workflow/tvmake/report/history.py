"""Earlier summaries of the same results, stored beside the current one so that runs can be compared.

A run is stored if its rows differ from the one before: rewriting the report is not a new run.
"""

from collections.abc import Sequence
from contextlib import suppress
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
    if _newest_rows(results) == summary.rows:
        return
    file = results / DIRECTORY / f"{summary.created_at.replace(':', '')}.json"
    write_state(file, HISTORY_FORM, summary.model_dump(mode="json"))
    for old in _files(results)[:-KEPT]:
        old.unlink(missing_ok=True)


def _newest_rows(results: Path) -> list[SummaryRow] | None:
    """The rows of the newest run that can be read."""
    for path in reversed(_files(results)):
        with suppress(InputError):
            return load_summary(path).rows
    return None


def _files(results: Path) -> list[Path]:
    """The stored files, the oldest first; files with other names are ignored."""
    paths = (results / DIRECTORY).glob("*.json")
    return sorted(path for path in paths if HISTORY_NAME.fullmatch(path.stem) and path.is_file())


def measurements(rows: Sequence[SummaryRow], runs: Sequence[Summary]) -> dict[str, list[tuple[str, SummaryRow]]]:
    """The earlier measurements of each variant with their times, the oldest first.

    Runs that reused an earlier measurement do not count.

    Args:
        rows: the variants' current rows, which are not part of the result.
        runs: the oldest first.
    """
    measured: dict[str, list[tuple[str, SummaryRow]]] = {row.variant: [] for row in rows}
    for run in runs:
        for earlier in run.rows:
            known = measured.get(earlier.variant)
            if known is None or earlier.p50_ms is None or (known and is_same_measurement(earlier, known[-1][1])):
                continue
            known.append((run.created_at, earlier))
    for row in rows:
        known = measured[row.variant]
        if known and is_same_measurement(known[-1][1], row):
            known.pop()
    return measured


def is_same_measurement(first: SummaryRow, second: SummaryRow) -> bool:
    """Whether a row reused another one's measurement."""
    figures = ("package_sha256", "p50_ms", "mean_ms", "min_ms", "cv")
    return all(getattr(first, name) == getattr(second, name) for name in figures)
