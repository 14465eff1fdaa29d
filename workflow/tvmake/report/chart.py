"""The latency chart, as SVG.

Drawn by Vega-Lite when the report is made, so that the page holds a picture and not a JavaScript library.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmake.report.quantities import milliseconds

DRAWN = 100
"""Samples drawn per variant at most: evenly spaced order statistics, which keep the distribution's shape."""
DRAWN_QUANTILE = 0.99
"""Samples beyond this quantile are left out, so that one hiccup does not squeeze the rest."""
WIDTH, ROW_HEIGHT = 720, 34
LEFT_MARGIN = 40
"""Room for labels that the reader's font makes wider than they were when the chart was drawn."""


@dataclass(frozen=True)
class LatencyLine:
    """One variant in the chart."""

    model: str
    label: str
    samples_ms: Sequence[float]
    p50_ms: float
    p90_ms: float


def latency_svg(lines: Sequence[LatencyLine]) -> str:
    """One panel a model, one row a variant: each sample a thin tick, the median a thick one, p90 a dot.

    Colours are the page's CSS variables ``--ink``, ``--muted``, ``--grid`` and ``--accent``.
    """
    # Half a second of import that only this function needs.
    import altair as alt
    import vl_convert

    panels = [_panel(alt, model, [line for line in lines if line.model == model]) for model in _models(lines)]
    chart = alt.vconcat(*panels, spacing=24).configure(**theme())
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    return vl_convert.vegalite_to_svg(chart.to_dict(), vl_version=version)


def drawn_samples(samples_ms: Sequence[float]) -> list[float]:
    """The samples to draw, in ascending order."""
    ordered = np.sort(np.asarray(samples_ms, np.float64))
    kept = ordered[: max(1, int(np.ceil(ordered.size * DRAWN_QUANTILE)))]
    places = np.unique(np.linspace(0, kept.size - 1, min(DRAWN, kept.size)).round().astype(int))
    return [float(value) for value in kept[places]]


def _models(lines: Sequence[LatencyLine]) -> list[str]:
    return list(dict.fromkeys(line.model for line in lines))


def _panel(alt: Any, model: str, lines: Sequence[LatencyLine]) -> Any:
    samples = [{"variant": line.label, "ms": value} for line in lines for value in drawn_samples(line.samples_ms)]
    marks = [
        {"variant": line.label, "p50": line.p50_ms, "p90": line.p90_ms, "text": milliseconds(line.p50_ms)}
        for line in lines
    ]
    order = [line.label for line in lines]
    y = alt.Y("variant:N", sort=order, title=None)
    scale = alt.Scale(zero=False, nice=True)
    drawn = (
        alt.Chart(alt.Data(values=samples))
        .mark_tick(thickness=1, size=14, opacity=0.45, color="var(--muted)", aria=False)
        .encode(x=alt.X("ms:Q", title="ms", scale=scale, axis=alt.Axis(tickCount=8)), y=y)
    )
    summary = alt.Chart(alt.Data(values=marks))
    median = summary.mark_tick(thickness=3, size=20, color="var(--accent)").encode(x="p50:Q", y=y)
    slow = summary.mark_point(shape="circle", filled=True, size=55, opacity=1, color="var(--accent)").encode(
        x="p90:Q", y=y
    )
    text = summary.mark_text(dy=-15, fontSize=10, color="var(--ink)").encode(x="p50:Q", y=y, text="text:N")
    return alt.layer(drawn, median, slow, text).properties(title=model, width=WIDTH, height=alt.Step(ROW_HEIGHT))


def theme() -> dict[str, Any]:
    """The look of every chart: the page's colours, nothing around it."""
    label = {"labelColor": "var(--ink)", "titleColor": "var(--ink)", "labelLimit": 0}
    return {
        "background": "transparent",
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {**label, "gridColor": "var(--grid)", "domainColor": "var(--grid)", "tickColor": "var(--grid)"},
        "padding": {"left": LEFT_MARGIN, "top": 5, "right": 5, "bottom": 5},
        "legend": {"labelColor": "var(--ink)", "labelLimit": 230},
        "title": {"anchor": "start", "frame": "group", "color": "var(--ink)", "fontSize": 13},
    }
