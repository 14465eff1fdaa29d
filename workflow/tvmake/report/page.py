"""The results page: one HTML file that needs no network.

Everything but the style, the script and the chart goes through Jinja's autoescape: names of models, outputs and
kernels come from outside. A content security policy forbids the browser any fetch and any script but the page's own.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.report import quantities
from tvmake.report.chart import DRAWN, LatencyLine, latency_svg
from tvmake.report.detail import Facts, Table, device_facts, failure_facts, variant_facts, variant_tables
from tvmake.report.results import VariantResults
from tvmake.report.rows import Summary, SummaryRow, cache_text, failed_line, missed_line, tuned_text
from tvmake.report.template import SCRIPT, STYLE, TEMPLATE
from tvmake.report.tuning_chart import CURVES, TuningCurves, drawn, tuning_svg

COLUMNS = (
    ("model", False),
    ("target", False),
    ("precision", False),
    ("verdict", False),
    ("device", False),
    ("p50 ms", True),
    ("p90 ms", True),
    ("top-1", True),
    ("SQNR", True),
    ("max error", True),
    ("tuned", False),
    ("memory", True),
    ("package", True),
)


@dataclass(frozen=True)
class Cell:
    """A cell of the summary table; numeric ones sort by ``value``, an absent value last; ``kind`` is a CSS class."""

    text: str
    numeric: bool = False
    value: float | str = ""
    kind: str = ""
    link: str = ""


@dataclass(frozen=True)
class Entry:
    """One variant, as the template shows it."""

    row: SummaryRow
    anchor: str
    cells: list[Cell]
    missed: list[str]
    facts: list[Facts]
    tables: list[Table]


def render_page(summary: Summary, results: Sequence[VariantResults]) -> str:
    """The page as HTML.

    Args:
        results: what ``summary`` was made from; none of variants that were not made.
    """
    made = {(one.variant.model, one.variant.precision, one.variant.target): one for one in results}
    entries = [
        _entry(number, row, made.get((row.model, row.precision, row.target)))
        for number, row in enumerate(summary.rows, 1)
    ]
    lines = [_line(result) for result in results if result.latency]
    searches = [
        TuningCurves(
            "/".join((result.variant.model, result.variant.precision, result.variant.target)), result.best.kernels
        )
        for result in results
        if result.best and drawn(result.best.kernels)
    ]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(TEMPLATE).render(
        summary=summary,
        cache=cache_text(summary.cache) if summary.cache else "",
        counts=sorted(Counter(row.verdict for row in summary.rows).items()),
        columns=COLUMNS,
        entries=entries,
        failed=[entry for entry in entries if entry.missed],
        chart=Markup(latency_svg(lines)) if lines else "",
        tuning=Markup(tuning_svg(searches)) if searches else "",
        curves=CURVES,
        drawn=DRAWN,
        devices=_devices(results),
        style=Markup(STYLE),
        script=Markup(SCRIPT),
        script_digest=base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode(),
    )


def _entry(number: int, row: SummaryRow, result: VariantResults | None) -> Entry:
    anchor = f"variant-{number}"
    return Entry(
        row=row,
        anchor=anchor,
        cells=_cells(row, anchor),
        missed=[f"missed {missed_line(goal)}" for goal in row.missed] if result else [failed_line(row)],
        facts=variant_facts(row, result) if result else failure_facts(row),
        tables=variant_tables(result) if result else [],
    )


def _line(result: VariantResults) -> LatencyLine:
    assert result.latency is not None
    report, variant = result.latency.report, result.variant
    return LatencyLine(
        model=variant.model,
        label=f"{variant.target} {variant.precision}",
        samples_ms=report.samples_ms,
        p50_ms=report.statistics.p50_ms,
        p90_ms=report.statistics.p90_ms,
    )


def _cells(row: SummaryRow, anchor: str) -> list[Cell]:
    def number(text: str, value: float | None) -> Cell:
        return Cell(text, numeric=True, value="" if value is None else value)

    package = Cell(
        quantities.size(row.package_bytes),
        numeric=True,
        value="" if row.package_bytes is None else row.package_bytes,
        link=quote(row.package or ""),
    )
    return [
        Cell(row.model),
        Cell(row.target),
        Cell(row.precision),
        Cell(row.verdict, kind=f"verdict {row.verdict}", link=f"#{anchor}"),
        Cell(row.device or quantities.ABSENT),
        number(quantities.milliseconds(row.p50_ms), row.p50_ms),
        number(quantities.milliseconds(row.p90_ms), row.p90_ms),
        number(quantities.share(row.top1), row.top1),
        number(quantities.level(row.sqnr_db), row.sqnr_db),
        number(quantities.figure(row.max_abs), row.max_abs),
        Cell(tuned_text(row), kind="tuned"),
        number(quantities.size(row.peak_memory_bytes), row.peak_memory_bytes),
        package,
    ]


def _devices(results: Sequence[VariantResults]) -> list[Facts]:
    found: dict[str, list[Fingerprint]] = {}
    for result in results:
        known = found.setdefault(result.variant.device or "", [])
        known += [fingerprint for fingerprint in result.fingerprints if fingerprint not in known]
    return [(name, device_facts(fingerprint)) for name, known in found.items() for fingerprint in known]
