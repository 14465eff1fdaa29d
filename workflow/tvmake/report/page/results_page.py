"""The results page: one HTML file that needs no network."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from markupsafe import Markup

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.benchmark.result import Latency
from tvmake.benchmark.steps import baseline_steps, step_times
from tvmake.process.output import counted
from tvmake.report import quantities
from tvmake.report.cache_use import cache_text
from tvmake.report.detail import Facts, Table, device_facts, failure_facts, variant_facts, variant_tables
from tvmake.report.page.charts.curves import line_svg
from tvmake.report.page.comparison import Comparison, comparisons, headlines, name_of, untuned_twins
from tvmake.report.page.html import Cell, number, render
from tvmake.report.page.kernels import CURVES, search
from tvmake.report.page.network import Network, networks
from tvmake.report.page.packages import package_entries
from tvmake.report.page.panels import noise_words, panels
from tvmake.report.page.plots import plots
from tvmake.report.page.runs import compare_runs
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
    compared: list[str]
    """Comparisons in words."""
    facts: list[Facts]
    tables: list[Table]
    network: Network | None
    steps: Markup | None
    """The curve of the time of a step by its position."""
    usages: list[Usage]


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
    rows = {row.variant: row for row in summary.rows}
    results_by_name = {name_of(result): result for result in results}
    anchors = {row.variant: f"variant-{number}" for number, row in enumerate(summary.rows, 1)}
    compared = comparisons(summary, results, runs)
    twins = untuned_twins(results)
    graphs = networks(sorted(results, key=lambda result: not rows[name_of(result)].best))
    entries = [
        _entry(row, results_by_name.get(row.variant), compared.get(row.variant), anchors, graphs, directory)
        for row in summary.rows
    ]
    columns, measured = _drop_empty([entry for entry in entries if entry.row.verdict in ("pass", "fail")])
    return render(
        PAGE,
        summary=summary,
        title=title,
        results=directory,
        made_at=quantities.moment(summary.created_at),
        axes=_axes(summary),
        cache=cache_text(summary.cache) if summary.cache else "",
        counts=sorted(Counter(row.verdict for row in summary.rows).items()),
        headlines=headlines(summary, results, compared),
        noise=_noise(summary),
        panels=panels(compared, results_by_name, anchors),
        has_baseline=any(row.baseline_ms is not None for row in summary.rows),
        plots=plots(compared, results, anchors),
        entries=entries,
        measured=measured,
        compiled=[entry for entry in entries if entry.row.verdict == "not run"],
        failed=[entry for entry in entries if entry.row.verdict in ("failed", "not made")],
        missed=[entry for entry in entries if entry.row.missed],
        columns=columns,
        compiled_columns=COMPILED_COLUMNS,
        failed_columns=FAILED_COLUMNS,
        groups=[(number, name) for number, (name, _) in enumerate(columns) if name in GROUPS],
        searches=[
            (anchors[name_of(result)], curves)
            for result in results
            if (curves := search(result, twins.get(name_of(result))))
        ],
        curves=CURVES,
        history=compare_runs(summary, runs, anchors),
        devices=_devices(results),
        packages=package_entries(summary.packages, anchors),
    )


def _drop_empty(entries: Sequence[Entry]) -> tuple[list[tuple[str, bool]], list[Entry]]:
    """The columns in which an entry has a figure, and the entries with their cells."""
    shown = [
        number
        for number, (_, is_numeric) in enumerate(COLUMNS)
        if not is_numeric or any(entry.cells[number].text != quantities.ABSENT for entry in entries)
    ]
    return [COLUMNS[number] for number in shown], [
        replace(entry, cells=[entry.cells[number] for number in shown]) for entry in entries
    ]


def _noise(summary: Summary) -> str:
    """``17 of 54 variants are noisy``; empty if none is."""
    noisy = sum(bool(row.noisy) for row in summary.rows)
    if not noisy:
        return ""
    measured = sum(row.p50_ms is not None for row in summary.rows)
    return f"{noisy} of {counted(measured, 'variant')} {'is' if noisy == 1 else 'are'} noisy"


def _axes(summary: Summary) -> str:
    """``2 models × 3 precisions × 1 target``: the combinations of the variants."""
    names = ("model", "precision", "target")
    counts = [(len({getattr(row, name) for row in summary.rows}), name) for name in names]
    return " × ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts)


def _entry(
    row: SummaryRow,
    result: VariantResults | None,
    compared: Comparison | None,
    anchors: Mapping[str, str],
    graphs: Mapping[str, Network],
    directory: str,
) -> Entry:
    anchor = anchors[row.variant]
    return Entry(
        row=row,
        anchor=anchor,
        cells=_cells(row, anchor, compared),
        missed=[f"missed {missed_line(goal)}" for goal in row.missed] if result else [failed_line(row)],
        compared=compared.words if compared else [],
        facts=variant_facts(row, result) if result else failure_facts(row),
        tables=variant_tables(result) if result else [],
        network=graphs.get(result.package) if result else None,
        steps=_steps(result.latency) if result and result.latency else None,
        usages=usages(result.manifest, f"{directory}/{result.package}", row.device) if result else [],
    )


def _steps(latency: Latency) -> Markup | None:
    """The curve of the time of a step by its position; None without several steps."""
    times = step_times(latency.report.steps_ms)
    if len(times) < 2:
        return None
    peer = baseline_steps(latency)
    dashed = "; dashed: the baseline" if peer else ""
    name = f"Time of a step by its position: {times[0]:.3g} ms at first, {times[-1]:.3g} ms at last{dashed}"
    return line_svg(times, name, peer)


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
        number(quantities.milliseconds(row.p50_ms), row.p50_ms, mark=noise_words(row)),
        number(quantities.milliseconds(row.p90_ms), row.p90_ms),
        number(faster.figure if faster else quantities.ABSENT, faster.factor if faster else None),
        number(quantities.times_within(row.speedup, row.speedup_low, row.speedup_high), row.speedup),
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
