"""Trade-offs: latency against accuracy or size, with the Pareto front of the variants."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from tvmake.report.page.charts.scale import Scale, fitting

HEIGHT, TOP, BOTTOM = 230, 14, 40
MARGIN = 17
"""Per cent of the width at the left, for the values of the vertical axis."""

NARROW = 300
"""The smallest width in pixels. In a wider plot, texts of constant size at the same x are at least as far apart."""

DIGIT, LETTER, LINE = 8.0, 6.6, 13.0
"""Upper bounds of the width of a number's digit, of a tick's letter, and of the height of a text, in pixels."""

RADIUS = 5
OFFSETS = (-9, 18, -22, 31)
"""Pixels from a mark down to the baseline of its number; the first free one is taken."""

Box = tuple[float, float, float, float]
"""Left, right, top and bottom in pixels, at the smallest width."""


@dataclass(frozen=True)
class Point:
    """A variant; smaller is better on both axes unless the plot has ``higher_is_better``."""

    label: str
    x: float
    y: float
    kind: str = ""
    """CSS class of the mark."""
    anchor: str = ""
    """The page's anchor of its variant."""


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

    Each mark has its number in the list of points, unless there is no room for it.

    Args:
        points: at least one, with x > 0.
        name: the plot's description, for screen readers.
        x_text: a value of the x axis as text.
        y_text: the same for the y axis.
        higher_is_better: whether large y are better.
    """
    x = fitting([point.x for point in points], MARGIN + 3, 96)
    y = fitting([point.y for point in points], HEIGHT - BOTTOM, TOP + 8, may_be_log=not higher_is_better)
    parts = [*_grid(x, y, x_text, y_text)]
    best = front(points, higher_is_better=higher_is_better)
    for first, second in pairwise(best):
        line = Markup('<line class="front" x1="{}%" y1="{}" x2="{}%" y2="{}"/>')
        parts.append(line.format(x.at(first.x), y.at(first.y), x.at(second.x), y.at(first.y)))
        parts.append(line.format(x.at(second.x), y.at(first.y), x.at(second.x), y.at(second.y)))
    for point, label in zip(points, _numbers([(x.at(point.x), y.at(point.y)) for point in points]), strict=True):
        kind = f"{point.kind} best" if point in best else point.kind
        mark = Markup('<circle class="mark {}" cx="{}%" cy="{}" r="{}"><title>{}: {}, {}</title></circle>').format(
            kind, x.at(point.x), y.at(point.y), RADIUS, point.label, x_text(point.x), y_text(point.y)
        )
        parts.append(Markup('<g data-variant="{}">{}{}</g>').format(point.anchor, mark, label))
    return Markup('<svg class="plot" role="img" aria-label="{}" width="100%" height="{}">{}</svg>').format(
        name, HEIGHT, Markup("").join(parts)
    )


def _grid(x: Scale, y: Scale, x_text: Callable[[float], str], y_text: Callable[[float], str]) -> list[Markup]:
    parts = []
    for value in y.ticks():
        position = y.at(value)
        parts.append(
            Markup('<line class="grid" x1="{0}%" x2="100%" y1="{1}" y2="{1}"/>').format(MARGIN, round(position, 1))
        )
        parts.append(Markup('<text class="tick" x="0" y="{}">{}</text>').format(round(position + 4, 1), y_text(value)))
    bottom = HEIGHT - 22
    end = 0.0
    for value in x.ticks():
        position, text = x.at(value), x_text(value)
        parts.append(Markup('<line class="grid" x1="{0}%" x2="{0}%" y1="{1}" y2="{2}"/>').format(position, TOP, bottom))
        middle, half = position / 100 * NARROW, len(text) * LETTER / 2
        if middle - half < end or middle + half > NARROW:
            continue
        end = middle + half + DIGIT
        parts.append(
            Markup('<text class="tick" x="{}%" y="{}" text-anchor="middle">{}</text>').format(
                position, bottom + 16, text
            )
        )
    return parts


def _numbers(positions: Sequence[tuple[float, float]]) -> list[Markup]:
    """The number of each mark above or below it; empty where other marks and numbers leave no room.

    Args:
        positions: of the marks, in per cent and pixels.
    """
    taken = [_box(across, RADIUS + 1, down + RADIUS + 1, 2 * RADIUS + 2) for across, down in positions]
    labels = []
    for number, (across, down) in enumerate(positions, 1):
        boxes = [
            (down + offset, _box(across, len(str(number)) * DIGIT / 2, down + offset + 2, LINE)) for offset in OFFSETS
        ]
        free = [
            (baseline, box)
            for baseline, box in boxes
            if box[2] >= 0 and box[3] <= HEIGHT - 24 and not any(_overlap(box, other) for other in taken)
        ]
        if not free:
            labels.append(Markup(""))
            continue
        baseline, box = free[0]
        taken.append(box)
        labels.append(
            Markup('<text class="name" x="{}%" y="{}" text-anchor="middle">{}</text>').format(
                across, round(baseline, 1), number
            )
        )
    return labels


def _box(across: float, half: float, bottom: float, height: float) -> Box:
    middle = across / 100 * NARROW
    return middle - half, middle + half, bottom - height, bottom


def _overlap(first: Box, second: Box) -> bool:
    return first[0] < second[1] and second[0] < first[1] and first[2] < second[3] and second[2] < first[3]
