"""Plots of latency against accuracy and against size."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tvmake.report import quantities
from tvmake.report.page.charts.pareto import Point, pareto_svg
from tvmake.report.page.comparison import Comparison, name_of
from tvmake.report.results import VariantResults
from tvmake.report.rows import SummaryRow

Text = Callable[[float], str]


@dataclass(frozen=True)
class Entry:
    """A numbered point in the list below a plot."""

    anchor: str
    label: str
    values: str


@dataclass(frozen=True)
class Plot:
    """A plot with its title and the list of its points."""

    title: str
    svg: Markup
    entries: list[Entry]


def plots(
    compared: Mapping[str, Comparison], results: Sequence[VariantResults], anchors: Mapping[str, str]
) -> list[Plot]:
    """The plots of all models whose variants differ, and of the candidates for layers' precisions.

    Args:
        compared: the measured variants, by name.
        results: the run's results.
        anchors: the page's anchor of each variant.
    """
    by_model: dict[str, list[SummaryRow]] = {}
    for comparison in compared.values():
        if comparison.row.p50_ms:
            by_model.setdefault(comparison.row.model, []).append(comparison.row)
    of_models = [plot for model, rows in by_model.items() for plot in _plots(model, rows, anchors)]
    return [*of_models, *(plot for result in results for plot in _precision_plot(result, anchors[name_of(result)]))]


def _plots(model: str, rows: Sequence[SummaryRow], anchors: Mapping[str, str]) -> list[Plot]:
    """Latency against accuracy and against size, where variants differ in them."""
    plots = []
    if len(rows) < 2:
        return []
    by_top1 = all(row.top1 is not None for row in rows) and len({row.top1 for row in rows}) > 1
    accuracies = [row.top1 if by_top1 else row.sqnr_db for row in rows]
    if all(value is not None for value in accuracies) and len(set(accuracies)) > 1:
        name = "top-1 accuracy" if by_top1 else "SQNR against the reference"
        text: Text = _percent if by_top1 else quantities.level
        points = [_point(row, value, anchors) for row, value in zip(rows, accuracies, strict=True) if value is not None]
        plots.append(_plot(f"{model}: {name}", f"{model}: latency against {name}", points, text, is_higher_better=True))
    if all(row.package_bytes for row in rows) and len({row.package_bytes for row in rows}) > 1:
        points = [_point(row, float(row.package_bytes or 0), anchors) for row in rows]
        title = f"{model}: size of the package"
        plots.append(
            _plot(title, f"{model}: latency against the package's size", points, _size, is_higher_better=False)
        )
    return plots


def _precision_plot(result: VariantResults, anchor: str) -> list[Plot]:
    """The candidates among which the precisions of layers were chosen."""
    choice = result.precision
    able = (
        [candidate for candidate in choice.candidates if candidate.is_measured and candidate.sqnr_db is not None]
        if choice
        else []
    )
    if choice is None or len(able) < 2:
        return []
    points = [
        Point(
            f"{candidate.name}, chosen" if candidate.name == choice.chosen else candidate.name,
            candidate.latency_ms or 0.0,
            candidate.sqnr_db or 0.0,
            "fail" if candidate.missed else "",
            anchor,
        )
        for candidate in able
    ]
    title = f"{name_of(result)}: precisions of layers"
    return [_plot(title, f"{title}, latency against SQNR", points, quantities.level, is_higher_better=True)]


def _plot(title: str, name: str, points: Sequence[Point], text: Text, *, is_higher_better: bool) -> Plot:
    ordered = sorted(points, key=lambda point: point.x)
    svg = pareto_svg(
        ordered, f"{name}; the list below has the figures", _ms, text, higher_is_better=is_higher_better
    )  # fmt: skip
    return Plot(title, svg, [Entry(point.anchor, point.label, f"{_ms(point.x)}, {text(point.y)}") for point in ordered])


def _point(row: SummaryRow, value: float, anchors: Mapping[str, str]) -> Point:
    kind = "fail" if row.verdict == "fail" else ""
    return Point(f"{row.precision} on {row.target}", row.p50_ms or 0.0, value, kind, anchors[row.variant])


def _ms(value: float) -> str:
    return f"{value:.3g} ms"


def _percent(value: float) -> str:
    return quantities.share(value, 1)


def _size(value: float) -> str:
    return quantities.size(round(value))
