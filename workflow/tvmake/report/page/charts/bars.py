"""A variant's latency as a bar, with its noise and its comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from tvmake.report.page.charts.scale import Scale

HEIGHT = 24
NOISE = (5, 95)
"""Percentiles of the samples between which the whisker runs."""


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

    @property
    def extent(self) -> float:
        """The largest of its values."""
        return max(self.value, self.high, self.baseline or 0.0, self.previous or 0.0)


def noise_interval(samples_ms: Sequence[float]) -> tuple[float, float]:
    """The interval of nine out of ten runs."""
    low, high = np.percentile(np.asarray(samples_ms, np.float64), NOISE)
    return float(low), float(high)


def bar_svg(bar: Bar, extent: float) -> Markup:
    """One bar from 0; ``extent`` is the time at the right end."""
    scale = Scale(0.0, extent * 1.02 or 1.0)
    middle = HEIGHT / 2
    parts = [
        Markup('<rect class="bar {}" x="0" y="5" width="{}%" height="14" rx="2"/>').format(
            bar.kind, scale.at(bar.value)
        ),
        Markup('<line class="whisker" x1="{0}%" x2="{1}%" y1="{2}" y2="{2}"/>').format(
            scale.at(bar.low), scale.at(bar.high), middle
        ),
    ]
    parts += [
        Markup('<line class="whisker" x1="{0}%" x2="{0}%" y1="{1}" y2="{2}"/>').format(
            scale.at(end), middle - 4, middle + 4
        )
        for end in (bar.low, bar.high)
    ]
    for kind, value in (("previous", bar.previous), ("baseline", bar.baseline)):
        if value is not None:
            parts.append(
                Markup('<line class="{0}" x1="{1}%" x2="{1}%" y1="0" y2="{2}"/>').format(kind, scale.at(value), HEIGHT)
            )
    return Markup('<svg class="bars" width="100%" height="{}" aria-hidden="true">{}</svg>').format(
        HEIGHT, Markup("").join(parts)
    )
