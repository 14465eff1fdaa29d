"""Earlier runs: the trend of each variant, and the comparison of two runs that the reader chooses."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

from markupsafe import Markup

from tvmake.errors import InputError
from tvmake.report import quantities
from tvmake.report.diff import VariantDiff, compare
from tvmake.report.history import is_same_measurement, measurements
from tvmake.report.page.charts.curves import line_svg
from tvmake.report.rows import Summary, SummaryRow

MOST_RUNS = 10
MOST_COMPARISONS = 1000
"""Comparisons of variants, of which each takes a millisecond; with more variants, fewer runs can be chosen."""


@dataclass(frozen=True)
class RunLine:
    """One variant in the runs."""

    anchor: str
    variant: str
    trend: Markup
    old: str
    new: str
    change: str
    kind: str
    """CSS class of the change."""
    values: str
    """JSON: ``ms``, the median of each run, and ``changes``, the change in words and its class of each two runs, by their numbers."""


@dataclass(frozen=True)
class Runs:
    """The runs to choose from, the oldest first; the last one is the page's."""

    titles: list[str]
    lines: list[RunLine]


def compare_runs(summary: Summary, runs: Sequence[Summary], anchors: dict[str, str]) -> Runs | None:
    """The variants that were measured in this run and in an earlier one; None without any.

    Args:
        summary: the page's run.
        runs: earlier runs of the same results, the oldest first.
        anchors: the page's anchor of each variant.
    """
    earlier = [run for run in runs if run.rows != summary.rows]
    known = measurements(summary.rows, earlier)
    rows = [row for row in summary.rows if row.p50_ms is not None and known[row.variant]]
    if not rows:
        return None
    count = max(
        number for number in range(2, MOST_RUNS + 1) if number == 2 or comb(number, 2) * len(rows) <= MOST_COMPARISONS
    )
    names = {row.variant for row in rows}
    shown = [
        run.model_copy(update={"rows": [row for row in run.rows if row.variant in names]})
        for run in [*earlier, summary][-count:]
    ]
    by_name = [{row.variant: row for row in run.rows} for run in shown]
    diffs = {pair: _diffs(*(shown[number] for number in pair)) for pair in combinations(range(len(shown)), 2)}
    lines = []
    for row in rows:
        name = row.variant
        texts = [quantities.milliseconds(run[name].p50_ms if name in run else None) for run in by_name]
        changes = {
            f"{first} {second}": _change(by_name[first].get(name), by_name[second].get(name), found.get(name))
            for (first, second), found in diffs.items()
        }
        text, kind = changes[f"{len(shown) - 2} {len(shown) - 1}"]
        trend = [*(measured for _, measured in known[name]), row]
        lines.append(
            RunLine(
                anchors[name],
                name,
                _trend(name, trend),
                texts[-2],
                texts[-1],
                text,
                kind,
                json.dumps({"ms": texts, "changes": changes}, ensure_ascii=False),
            )
        )
    titles = [f"{quantities.moment(run.created_at)}, tvmake {run.tvmake_version}" for run in shown]
    return Runs(titles, lines)


def _trend(variant: str, rows: Sequence[SummaryRow]) -> Markup:
    values = [row.p50_ms or 0.0 for row in rows]
    name = f"Median of {variant} in {len(values)} runs: {', '.join(map(quantities.milliseconds, values))} ms"
    return line_svg(values, name)


def _diffs(old: Summary, new: Summary) -> dict[str, VariantDiff]:
    """As ``tvmake diff`` compares two runs; empty if one of them has no samples."""
    try:
        return {variant.variant: variant for variant in compare(old, new).variants}
    except InputError:
        return {}


def _change(old: SummaryRow | None, new: SummaryRow | None, diff: VariantDiff | None) -> tuple[str, str]:
    """The change in words, and its CSS class."""
    if old is None or new is None or diff is None or diff.ratio is None:
        return "not measured in both", "note"
    if is_same_measurement(old, new):
        return "the same measurement", "note"
    moved = f"{quantities.change(diff.ratio)} ({quantities.interval(diff.low, diff.high)})"
    match diff.latency:
        case "faster" | "slower":
            return f"{moved}, {diff.latency}", diff.latency
        case "same":
            return f"{moved}, no clear change", ""
        case _:
            return f"{moved}, on another device", "note"
