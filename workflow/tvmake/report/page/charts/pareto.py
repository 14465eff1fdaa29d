"""Trade-offs: latency against accuracy or size, with the Pareto front of the variants."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from tvmake.report.page.charts.scale import Scale, fitting

HEIGHT, TOP, BOTTOM = 280, 22, 64
LABEL_HEIGHT = 15
LABELLED = 12
"""With more points than this, only those of the front have labels."""


@dataclass(frozen=True)
class Point:
    """A variant; smaller is better on both axes unless the plot has ``higher_is_better``."""

    label: str
    x: float
    y: float
    kind: str = ""
    """CSS class of the mark."""


def front(points: Sequence[Point], *, higher_is_better: bool) -> list[Point]:
    """The points that no other beats in both values (the Pareto front), by x."""
    sign = -1 if higher_is_better else 1
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (point.x, sign * point.y)):
        if not best or sign * point.y < sign * best[-1].y:
            best.append(point)
    return best


def pareto_svg(
    points: Sequence[Point],
    name: str,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
    *,
    higher_is_better: bool,
) -> Markup:
    """The plot as SVG, the front drawn as steps through its variants.

    Args:
        points: at least one, with x > 0.
        name: the plot's description, for screen readers.
        x_text: a value of the x axis as text.
        y_text: the same for the y axis.
        higher_is_better: whether large y are better.
    """
    x = fitting([point.x for point in points], 6, 94)
    y = fitting([point.y for point in points], HEIGHT - BOTTOM, TOP, may_be_log=not higher_is_better)
    parts = [*_grid(x, y, x_text, y_text)]
    best = front(points, higher_is_better=higher_is_better)
    for first, second in pairwise(best):
        line = Markup('<line class="front" x1="{}%" y1="{}" x2="{}%" y2="{}"/>')
        parts.append(line.format(x.at(first.x), y.at(first.y), x.at(second.x), y.at(first.y)))
        parts.append(line.format(x.at(second.x), y.at(first.y), x.at(second.x), y.at(second.y)))
    for point in points:
        kind = f"{point.kind} best" if point in best else point.kind
        parts.append(
            Markup('<circle class="mark {}" cx="{}%" cy="{}" r="5"><title>{}: {}, {}</title></circle>').format(
                kind, x.at(point.x), y.at(point.y), point.label, x_text(point.x), y_text(point.y)
            )
        )
    parts += _labels(points if len(points) <= LABELLED else best[:LABELLED], x, y)
    return Markup('<svg class="plot" role="img" aria-label="{}" width="100%" height="{}">{}</svg>').format(
        name, HEIGHT, Markup("").join(parts)
    )


def _grid(x: Scale, y: Scale, x_text: Callable[[float], str], y_text: Callable[[float], str]) -> list[Markup]:
    parts = []
    for value in y.ticks():
        position = y.at(value)
        parts.append(Markup('<line class="grid" x1="0" x2="100%" y1="{0}" y2="{0}"/>').format(position))
        parts.append(Markup('<text class="tick" x="0" y="{}">{}</text>').format(position - 3, y_text(value)))
    bottom = HEIGHT - 22
    for value in x.ticks():
        position = x.at(value)
        parts.append(Markup('<line class="grid" x1="{0}%" x2="{0}%" y1="{1}" y2="{2}"/>').format(position, TOP, bottom))
        anchor = "end" if position > 88 else "middle"
        parts.append(
            Markup('<text class="tick" x="{}%" y="{}" text-anchor="{}">{}</text>').format(
                position, bottom + 14, anchor, x_text(value)
            )
        )
    return parts


def _labels(points: Sequence[Point], x: Scale, y: Scale) -> list[Markup]:
    """Labels beside the marks; if two would overlap, the lower one moves down."""
    taken: list[float] = []
    parts = []
    for point in sorted(points, key=lambda point: y.at(point.y)):
        across, down = x.at(point.x), y.at(point.y) + 4
        for position in sorted(taken):
            if abs(position - down) < LABEL_HEIGHT:
                down = position + LABEL_HEIGHT
        taken.append(down)
        anchor, shift = ("end", -9) if across > 55 else ("start", 9)
        parts.append(
            Markup('<text class="name" x="{}%" y="{}" dx="{}" text-anchor="{}">{}</text>').format(
                across, down, shift, anchor, point.label
            )
        )
    return parts
