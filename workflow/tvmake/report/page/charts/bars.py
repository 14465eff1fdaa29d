"""A variant's latency as a bar, with its noise and its comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from tvmake.report.page.charts.scale import Scale

HEIGHT = 20
NOISE = (5, 95)
"""Percentiles of the samples between which the whisker runs."""

REFERENCES = 1.6
"""References up to this multiple of the longest bar are within the scale."""


@dataclass(frozen=True)
class Bar:
    """Times in ms; ``low`` and ``high`` are the ends of the whisker."""

    value: float
    low: float
    high: float
    baseline: float | None = None
    previous: float | None = None
    kind: str = ""
    """CSS class of the bar."""


def time_at_the_end(bars: Sequence[Bar]) -> float:
    """The time at the right end of a panel of bars.

    The bars set the scale, not their noise; the references do as long as they leave room for the bars. Marks beyond the end are drawn
    as arrows.
    """
    longest = max(bar.value for bar in bars)
    references = [value for bar in bars for value in (bar.baseline, bar.previous) if value is not None]
    return max([longest, *(value for value in references if value <= REFERENCES * longest)]) or 1.0


def noise_interval(samples_ms: Sequence[float]) -> tuple[float, float]:
    """The interval of nine out of ten runs."""
    low, high = np.percentile(np.asarray(samples_ms, np.float64), NOISE)
    return float(low), float(high)


def bar_svg(bar: Bar, end: float) -> Markup:
    """One bar from 0; ``end`` is the time at the right end."""
    scale = Scale(0.0, end * 1.02)
    middle = HEIGHT / 2
    parts = [
        Markup('<rect class="bar {}" x="0" y="4" width="{}%" height="12" rx="2"/>').format(
            bar.kind, scale.at(bar.value)
        ),
        Markup('<line class="whisker" x1="{0}%" x2="{1}%" y1="{2}" y2="{2}"/>').format(
            scale.at(bar.low), scale.at(bar.high), middle
        ),
    ]
    parts += [_mark("whisker", scale, value, middle - 4, middle + 4) for value in (bar.low, bar.high)]
    parts += [
        _mark(kind, scale, value, 0, HEIGHT)
        for kind, value in (("previous", bar.previous), ("baseline", bar.baseline))
        if value is not None
    ]
    return Markup('<svg class="bars" width="100%" height="{}" aria-hidden="true">{}</svg>').format(
        HEIGHT, Markup("").join(parts)
    )


def _mark(kind: str, scale: Scale, value: float, top: float, bottom: float) -> Markup:
    """A vertical line at a value; an arrow at the right end if the value is beyond it."""
    if value <= scale.high:
        return Markup('<line class="{0}" x1="{1}%" x2="{1}%" y1="{2}" y2="{3}"/>').format(
            kind, scale.at(value), top, bottom
        )
    # The nested image's right edge is the end of the scale.
    return Markup('<svg x="100%" overflow="visible"><path class="{0} beyond" d="M-7,{1}L-1,{2}L-7,{3}"/></svg>').format(
        kind, HEIGHT / 2 - 5, HEIGHT / 2, HEIGHT / 2 + 5
    )
