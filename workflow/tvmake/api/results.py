"""The results of a run as a table: ``tvmake.Results("results").best("mobilenet")``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, overload

from tvmake.api.model import html_table
from tvmake.errors import InputError, MachineError
from tvmake.process.output import counted
from tvmake.report.load import SUMMARY, load_summary
from tvmake.report.rows import SummaryRow, tuned_text
from tvmake.running.arguments import path_of

SHOWN = ("model", "precision", "target", "verdict", "latency_ms", "top1", "sqnr_db", "package_bytes")

SHOWN_NAMES = 8
"""Of variants, in an error."""


class Results:
    """The results of a run: one typed row per variant, in config order.

    Args:
        path: a results directory, or a ``summary.json``.

    Raises:
        InputError: the summary is missing or damaged.
    """

    def __init__(self, path: Path | str = "results"):
        self.path = path_of("Results", "a results directory or a summary.json", path)
        self.summary = load_summary(self.path)

    @property
    def rows(self) -> list[SummaryRow]:
        """The rows; times are in ms, sizes in bytes."""
        return self.summary.rows

    def __iter__(self) -> Iterator[SummaryRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, key: int) -> SummaryRow: ...
    @overload
    def __getitem__(self, key: str) -> SummaryRow: ...
    @overload
    def __getitem__(self, key: slice) -> list[SummaryRow]: ...
    def __getitem__(self, key: int | str | slice) -> SummaryRow | list[SummaryRow]:
        """A row by its index, or by ``model/precision/target``; several by a slice."""
        if isinstance(key, int | slice):
            return self.rows[key]
        for row in self.rows:
            if row.variant == key:
                return row
        known = ", ".join(row.variant for row in self.rows[:SHOWN_NAMES])
        raise KeyError(f"{key}: no such variant; the variants are {known}{' …' if len(self) > SHOWN_NAMES else ''}")

    def best(self, model: str, target: str | None = None) -> SummaryRow:
        """The fastest variant of a model that meets its goals.

        Args:
            target: consider only variants for this target.

        Raises:
            InputError: the model has no such variant.
        """
        rows = [row for row in self.rows if row.model == model and target in (None, row.target)]
        passed = [row for row in rows if row.verdict == "pass" and row.latency_ms is not None]
        if not passed:
            known = ", ".join(f"{row.variant}: {row.verdict}" for row in rows) or "no such variant"
            raise InputError(str(self.path), f"no variant of '{model}' meets its goals and was timed", known)
        return min(passed, key=lambda row: (row.latency_ms, row.variant))

    def package(self, row: SummaryRow) -> Path:
        """The path of a row's package.

        Raises:
            InputError: it was not built.
        """
        if row.package is None:
            raise InputError(row.variant, f"has no package: {row.verdict}", row.remedy)
        root = self.path if self.path.is_dir() else self.path.parent
        return root / row.package

    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries of plain values."""
        return [row.model_dump(mode="json") for row in self.rows]

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``, a column for each field.

        Raises:
            MachineError: pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError:
            raise MachineError("to_pandas", "pandas is not installed", "pip install pandas") from None
        return pandas.DataFrame.from_records(self.records(), columns=list(SummaryRow.model_fields))

    def __repr__(self) -> str:
        return f"<tvmake.Results {self.path / SUMMARY if self.path.is_dir() else self.path}: {counted(len(self), 'variant')}>"

    def _repr_html_(self) -> str:
        rows = [
            [*(_figure(getattr(row, name)) for name in SHOWN), tuned_text(row), row.cause or ""] for row in self.rows
        ]
        return html_table(str(self.path), (*SHOWN, "tuned", ""), rows)


def _figure(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value
