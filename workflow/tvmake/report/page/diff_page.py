"""The comparison of two runs as a page."""

from collections import Counter

from tvmake.report import quantities
from tvmake.report.diff import SummaryDiff, VariantDiff
from tvmake.report.page.charts.bars import Bar, bar_svg
from tvmake.report.page.html import Cell, number, render
from tvmake.report.page.results_page import BarLine
from tvmake.report.page.template import DIFF
from tvmake.report.rows import Summary

COLUMNS = (
    ("model", False),
    ("precision", False),
    ("target", False),
    ("latency", False),
    ("statistic", False),
    ("old ms", True),
    ("new ms", True),
    ("change", True),
    ("95 % interval", True),
)
GROUPS = ("model", "precision", "target", "latency")


def render_diff(diff: SummaryDiff, old: Summary, new: Summary) -> str:
    """The page as HTML.

    Args:
        diff: of ``old`` and ``new``.
        old: the earlier run.
        new: the later one.
    """
    extent = max((variant.ratio or 0.0 for variant in diff.variants), default=0.0)
    extent = 1.15 * max(extent, 1.0)
    return render(
        DIFF,
        title="What changed between two runs",
        verdict=_verdict(diff),
        old=_run(old),
        new=_run(new),
        diff=diff,
        bars=[_bar(variant, extent) for variant in diff.variants if variant.ratio is not None],
        columns=COLUMNS,
        groups=[(number, name) for number, (name, _) in enumerate(COLUMNS) if name in GROUPS],
        rows=[_cells(variant) for variant in diff.variants],
        changes=[(variant.variant, variant.is_worse, variant.changes) for variant in diff.variants if variant.changes],
    )


def _verdict(diff: SummaryDiff) -> str:
    counts = Counter(variant.latency for variant in diff.variants)
    words = [f"{counts[verdict]} {verdict}" for verdict in ("slower", "faster", "same", "not comparable", "not measured")
             if counts[verdict]]  # fmt: skip
    worse = sum(variant.is_worse for variant in diff.variants)
    return ", ".join([*words, *([f"{worse} worse in their goals"] if worse else [])]) or "Nothing to compare"


def _run(summary: Summary) -> str:
    variants = len(summary.rows)
    return (
        f"{quantities.moment(summary.created_at)}, {variants} variant{'' if variants == 1 else 's'},"
        f" tvmake {summary.tvmake_version}, TVM {summary.tvm_version}, on {summary.machine.soc}"
    )


def _bar(variant: VariantDiff, extent: float) -> BarLine:
    ratio = variant.ratio or 0.0
    kind = {"slower": "fail", "faster": "tuned"}.get(variant.latency, "")
    bar = Bar(value=ratio, low=variant.low or ratio, high=variant.high or ratio, previous=1.0, kind=kind)
    return BarLine(
        label=variant.variant,
        svg=bar_svg(bar, extent),
        value=f"{quantities.milliseconds(variant.new_ms)} ms",
        words=f"{quantities.change(variant.ratio)}, {variant.latency}",
        noisy="",
    )


def _cells(variant: VariantDiff) -> list[Cell]:
    model, precision, target = variant.variant.split("/", 2)
    return [
        Cell(model),
        Cell(precision),
        Cell(target),
        Cell(variant.latency, kind=variant.latency),
        Cell(variant.statistic or quantities.ABSENT),
        number(quantities.milliseconds(variant.old_ms), variant.old_ms),
        number(quantities.milliseconds(variant.new_ms), variant.new_ms),
        number(quantities.change(variant.ratio), variant.ratio),
        number(quantities.interval(variant.low, variant.high), variant.low),
    ]
