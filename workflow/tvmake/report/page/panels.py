"""Latencies of the variants as bars: a panel for each model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tvmake.report import quantities
from tvmake.report.page.charts.bars import Bar, bar_svg, noise_interval, time_at_the_end
from tvmake.report.page.comparison import Comparison
from tvmake.report.results import VariantResults
from tvmake.report.rows import SummaryRow


@dataclass(frozen=True)
class BarLine:
    """One variant among the bars of its model."""

    anchor: str
    label: str
    svg: Markup
    value: str
    noise: str


@dataclass(frozen=True)
class Panel:
    """The bars of a model."""

    model: str
    bars: list[BarLine]


def panels(
    compared: Mapping[str, Comparison], results: Mapping[str, VariantResults], anchors: Mapping[str, str]
) -> list[Panel]:
    """The panels of all models with measured variants.

    Args:
        compared: the measured variants, by name.
        results: the run's results, by variant.
        anchors: the page's anchor of each variant.
    """
    by_model: dict[str, list[Comparison]] = {}
    for comparison in compared.values():
        by_model.setdefault(comparison.row.model, []).append(comparison)
    return [Panel(model, _lines(rows, results, anchors)) for model, rows in by_model.items()]


def noise_words(row: SummaryRow) -> str:
    """Why a row's figures are uncertain; empty if they are not."""
    return f"the samples vary by {quantities.share(row.cv, 1)} or drift" if row.noisy else ""


def _lines(
    rows: Sequence[Comparison], results: Mapping[str, VariantResults], anchors: Mapping[str, str]
) -> list[BarLine]:
    bars = [_bar(comparison, results[comparison.row.variant]) for comparison in rows]
    end = time_at_the_end(bars)
    return [
        BarLine(
            anchor=anchors[comparison.row.variant],
            label=f"{comparison.row.precision} on {comparison.row.target}",
            svg=bar_svg(bar, end),
            value=quantities.milliseconds(comparison.row.p50_ms),
            noise=noise_words(comparison.row),
        )
        for comparison, bar in zip(rows, bars, strict=True)
    ]


def _bar(compared: Comparison, result: VariantResults) -> Bar:
    assert result.latency is not None
    low, high = noise_interval(result.latency.report.samples_ms)
    row = compared.row
    kind = "fail" if row.verdict == "fail" else "tuned" if row.tuned in ("yes", "partly") else ""
    return Bar(
        value=result.latency.report.statistics.p50_ms,
        low=low,
        high=high,
        baseline=row.baseline_ms,
        previous=compared.previous.p50_ms if compared.previous else None,
        kind=kind,
    )
