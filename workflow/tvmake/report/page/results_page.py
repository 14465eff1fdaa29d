"""The results page: one HTML file that needs no network."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from markupsafe import Markup

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.report import quantities
from tvmake.report.cache_use import cache_text
from tvmake.report.detail import Facts, Table, device_facts, failure_facts, variant_facts, variant_tables
from tvmake.report.history import measurements
from tvmake.report.page.charts.bars import Bar, bar_svg, noise_interval
from tvmake.report.page.charts.curves import line_svg
from tvmake.report.page.charts.pareto import Point, pareto_svg
from tvmake.report.page.comparison import Comparison, comparisons, headlines, name_of, untuned_twins
from tvmake.report.page.html import Cell, number, render
from tvmake.report.page.kernels import CURVES, search
from tvmake.report.page.template import PAGE
from tvmake.report.page.usage import Usage, usages
from tvmake.report.results import VariantResults
from tvmake.report.rows import Summary, SummaryRow, failed_line, missed_line, tuned_text
from tvmake.report.unscheduled import is_alarming

VARIANT_COLUMNS = (("model", False), ("target", False), ("precision", False), ("verdict", False))
COLUMNS = (
    *VARIANT_COLUMNS,
    ("device", False),
    ("p50 ms", True),
    ("p90 ms", True),
    ("× untuned", True),
    ("× baseline", True),
    ("top-1", True),
    ("SQNR", True),
    ("max error", True),
    ("tuned", False),
    ("unscheduled", True),
    ("memory", True),
    ("package", True),
)
COMPILED_COLUMNS = (*VARIANT_COLUMNS, ("tuned", False), ("unscheduled", True), ("package", True))
FAILED_COLUMNS = (*VARIANT_COLUMNS, ("stage", False), ("cause", False), ("what to do", False))
GROUPS = ("model", "target", "precision", "verdict", "device")


@dataclass(frozen=True)
class Entry:
    """One variant, as the template shows it."""

    row: SummaryRow
    anchor: str
    cells: list[Cell]
    missed: list[str]
    facts: list[Facts]
    tables: list[Table]
    usages: list[Usage]


@dataclass(frozen=True)
class BarLine:
    """One variant among the bars of its model."""

    label: str
    svg: Markup
    value: str
    words: str
    noisy: str


@dataclass(frozen=True)
class Panel:
    """The bars of a model."""

    model: str
    bars: list[BarLine]


@dataclass(frozen=True)
class Plot:
    """A plot with its title."""

    title: str
    svg: Markup


@dataclass(frozen=True)
class HistoryLine:
    """A variant's medians over the runs."""

    variant: str
    svg: Markup
    last: str
    since: str
    change: str


def render_page(
    summary: Summary,
    results: Sequence[VariantResults],
    *,
    title: str = "Results",
    directory: str = "results",
    runs: Sequence[Summary] = (),
) -> str:
    """The page as HTML.

    Args:
        summary: the rows to show.
        results: the run's results; variants that were not built have none.
        title: the page's heading.
        directory: the results directory, as in commands.
        runs: earlier runs of the same results, the oldest first.
    """
    results_by_name = {name_of(result): result for result in results}
    compared = comparisons(summary, results, runs)
    twins = untuned_twins(results)
    entries = [
        _entry(number, row, results_by_name.get(row.variant), compared.get(row.variant), directory)
        for number, row in enumerate(summary.rows, 1)
    ]
    return render(
        PAGE,
        summary=summary,
        title=title,
        results=directory,
        made_at=quantities.moment(summary.created_at),
        axes=_axes(summary),
        cache=cache_text(summary.cache) if summary.cache else "",
        counts=sorted(Counter(row.verdict for row in summary.rows).items()),
        headlines=headlines(summary, compared),
        panels=[_panel(model, rows, results_by_name) for model, rows in _by_model(compared)],
        has_baseline=any(row.baseline_ms is not None for row in summary.rows),
        plots=[
            *(plot for model, rows in _by_model(compared) for plot in _plots(model, rows)),
            *(plot for result in results for plot in _precision_plot(result)),
        ],
        entries=entries,
        measured=[entry for entry in entries if entry.row.verdict in ("pass", "fail")],
        compiled=[entry for entry in entries if entry.row.verdict == "not run"],
        failed=[entry for entry in entries if entry.row.verdict in ("failed", "not made")],
        missed=[entry for entry in entries if entry.row.missed],
        columns=COLUMNS,
        compiled_columns=COMPILED_COLUMNS,
        failed_columns=FAILED_COLUMNS,
        groups=[(number, name) for number, (name, _) in enumerate(COLUMNS) if name in GROUPS],
        searches=[curves for result in results if (curves := search(result, twins.get(name_of(result))))],
        curves=CURVES,
        history=[line for row in summary.rows if (line := _history_line(row, runs))],
        devices=_devices(results),
    )


def _axes(summary: Summary) -> str:
    """``2 models × 3 precisions × 1 target``: the combinations of the variants."""
    names = ("model", "precision", "target")
    counts = [(len({getattr(row, name) for row in summary.rows}), name) for name in names]
    return " × ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts)


def _by_model(compared: Mapping[str, Comparison]) -> list[tuple[str, list[Comparison]]]:
    models = dict.fromkeys(comparison.row.model for comparison in compared.values())
    return [
        (model, [comparison for comparison in compared.values() if comparison.row.model == model]) for model in models
    ]


def _panel(model: str, rows: Sequence[Comparison], results: Mapping[str, VariantResults]) -> Panel:
    bars = [(row, _bar(row, results[row.row.variant])) for row in rows]
    extent = max(bar.extent for _, bar in bars)
    return Panel(
        model,
        [
            BarLine(
                label=f"{comparison.row.precision} on {comparison.row.target}",
                svg=bar_svg(bar, extent),
                value=quantities.milliseconds(comparison.row.p50_ms),
                words="; ".join(comparison.words),
                noisy=_noise(comparison.row),
            )
            for comparison, bar in bars
        ],
    )


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


def _noise(row: SummaryRow) -> str:
    return f"the samples vary by {quantities.share(row.cv, 1)} or drift" if row.noisy else ""


def _plots(model: str, compared: Sequence[Comparison]) -> list[Plot]:
    """Latency against accuracy and against size, where variants differ in them."""
    plots = []
    rows = [comparison.row for comparison in compared if comparison.row.p50_ms]
    if len(rows) < 2:
        return []
    by_top1 = all(row.top1 is not None for row in rows) and len({row.top1 for row in rows}) > 1
    accuracies = [row.top1 if by_top1 else row.sqnr_db for row in rows]
    if all(value is not None for value in accuracies) and len(set(accuracies)) > 1:
        name = "top-1 accuracy" if by_top1 else "SQNR against the reference"
        text = (lambda value: quantities.share(value, 1)) if by_top1 else quantities.level
        points = [_point(row, value) for row, value in zip(rows, accuracies, strict=True) if value is not None]
        svg = pareto_svg(
            points, f"{model}: latency against {name}; the table of variants has the figures", _ms, text,
            higher_is_better=True,
        )  # fmt: skip
        plots.append(Plot(f"{model}: {name}", svg))
    if all(row.package_bytes for row in rows) and len({row.package_bytes for row in rows}) > 1:
        points = [_point(row, float(row.package_bytes or 0)) for row in rows]
        svg = pareto_svg(
            points, f"{model}: latency against the package's size; the table of variants has the figures", _ms,
            lambda value: quantities.size(round(value)), higher_is_better=False,
        )  # fmt: skip
        plots.append(Plot(f"{model}: size of the package", svg))
    return plots


def _precision_plot(result: VariantResults) -> list[Plot]:
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
        )
        for candidate in able
    ]
    title = f"{name_of(result)}: precisions of layers"
    name = f"{title}, latency against SQNR; the variant's table of candidates has figures and reasons"
    return [Plot(title, pareto_svg(points, name, _ms, quantities.level, higher_is_better=True))]


def _point(row: SummaryRow, value: float) -> Point:
    return Point(f"{row.precision} on {row.target}", row.p50_ms or 0.0, value, "fail" if row.verdict == "fail" else "")


def _ms(value: float) -> str:
    return f"{value:.3g} ms"


def _history_line(row: SummaryRow, runs: Sequence[Summary]) -> HistoryLine | None:
    before = measurements(row, runs)
    if not before or row.p50_ms is None:
        return None
    values = [earlier.p50_ms or 0.0 for _, earlier in before] + [row.p50_ms]
    first = values[0]
    name = f"Median of {row.variant} in {len(values)} runs: " + ", ".join(map(quantities.milliseconds, values)) + " ms"
    return HistoryLine(
        row.variant,
        line_svg(values, name),
        quantities.milliseconds(row.p50_ms),
        quantities.moment(before[0][0]),
        quantities.change(row.p50_ms / first if first else None),
    )


def _entry(
    number: int, row: SummaryRow, result: VariantResults | None, compared: Comparison | None, directory: str
) -> Entry:
    anchor = f"variant-{number}"
    return Entry(
        row=row,
        anchor=anchor,
        cells=_cells(row, anchor, compared),
        missed=[f"missed {missed_line(goal)}" for goal in row.missed] if result else [failed_line(row)],
        facts=variant_facts(row, result) if result else failure_facts(row),
        tables=variant_tables(result) if result else [],
        usages=usages(result.manifest, f"{directory}/{result.package}", row.device) if result else [],
    )


def _cells(row: SummaryRow, anchor: str, compared: Comparison | None) -> list[Cell]:
    named = [
        Cell(row.model),
        Cell(row.target),
        Cell(row.precision),
        Cell(row.verdict, kind=f"verdict {row.verdict}", link=f"#{anchor}"),
    ]
    package = number(
        quantities.size(row.package_bytes) + (", best" if row.best else ""),
        row.package_bytes,
        link=quote(row.package or ""),
    )
    unscheduled = number(
        quantities.share(row.unscheduled_share, 0),
        row.unscheduled_share,
        kind="fail" if is_alarming(row.unscheduled_share) else "",
    )
    match row.verdict:
        case "failed" | "not made":
            return [*named, Cell(row.stage or ""), Cell(row.cause or failed_line(row)), Cell(row.remedy or "")]
        case "not run":
            return [*named, Cell(tuned_text(row)), unscheduled, package]
    faster = compared.untuned if compared else None
    return [
        *named,
        Cell(row.device or quantities.ABSENT),
        number(quantities.milliseconds(row.p50_ms), row.p50_ms, mark=_noise(row)),
        number(quantities.milliseconds(row.p90_ms), row.p90_ms),
        number(f"{faster.factor:.3g} ×" if faster else quantities.ABSENT, faster.factor if faster else None),
        number(quantities.times(row.speedup), row.speedup),
        number(quantities.share(row.top1), row.top1),
        number(quantities.level(row.sqnr_db), row.sqnr_db),
        number(quantities.figure(row.max_abs), row.max_abs),
        Cell(tuned_text(row)),
        unscheduled,
        number(quantities.size(row.peak_memory_bytes), row.peak_memory_bytes),
        package,
    ]


def _devices(results: Sequence[VariantResults]) -> list[Facts]:
    by_device: dict[str, list[Fingerprint]] = {}
    for result in results:
        known = by_device.setdefault(result.variant.device or "", [])
        known += [fingerprint for fingerprint in result.fingerprints if fingerprint not in known]
    return [(name, device_facts(fingerprint)) for name, known in by_device.items() for fingerprint in known]
