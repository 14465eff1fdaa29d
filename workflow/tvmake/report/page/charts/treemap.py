"""Treemap of the time: kernels as rectangles of proportional area.

Rectangles are nearly square, in rows: Bruls, Huizing & van Wijk, "Squarified Treemaps", 2000.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

HEIGHT = 240
ASPECT = 3.0
"""The assumed ratio of width to height; the page's width is unknown when it is written."""
SMALLEST = 0.004
"""Share of the whole below which kernels are drawn as one."""


@dataclass(frozen=True)
class Cell:
    """A kernel: its share of the time, and a CSS class for its kind of schedule."""

    name: str
    share: float
    kind: str
    about: str


@dataclass(frozen=True)
class Rectangle:
    """Positions and sizes as percentages of the map's width and height."""

    x: float
    y: float
    width: float
    height: float


def treemap_svg(cells: Sequence[Cell], name: str) -> Markup:
    """The map as SVG; names are clipped at their rectangle.

    Args:
        cells: kernels with positive shares.
        name: the map's description, for screen readers.
    """
    large = [cell for cell in cells if cell.share >= SMALLEST]
    if small := [cell for cell in cells if cell.share < SMALLEST]:
        share = sum(cell.share for cell in small)
        large.append(Cell(f"{len(small)} others", share, "rest", f"{len(small)} kernels, each below {SMALLEST:.1%}"))
    large.sort(key=lambda cell: -cell.share)
    rectangles = layout([cell.share for cell in large])
    parts = [
        Markup(
            '<svg x="{}%" y="{}%" width="{}%" height="{}%"><title>{}</title><rect class="cell {}" width="100%" height="100%"/>'
            '<text x="6" y="17">{}</text><text class="tick" x="6" y="32">{:.1%}</text></svg>'
        ).format(
            round(rectangle.x, 3),
            round(rectangle.y, 3),
            round(rectangle.width, 3),
            round(rectangle.height, 3),
            f"{cell.name}: {cell.about}",
            cell.kind,
            cell.name,
            cell.share,
        )
        for cell, rectangle in zip(large, rectangles, strict=True)
    ]
    return Markup('<svg class="treemap" role="img" aria-label="{}" width="100%" height="{}">{}</svg>').format(
        name, HEIGHT, Markup("").join(parts)
    )


def layout(shares: Sequence[float]) -> list[Rectangle]:
    """Rectangles of these relative areas, which fill the map.

    Args:
        shares: positive, in descending order.
    """
    whole = sum(shares)
    areas = [share / whole * ASPECT for share in shares]
    x, y, width, height = 0.0, 0.0, ASPECT, 1.0
    found: list[Rectangle] = []
    start = 0
    while start < len(areas):
        side = min(width, height)
        end = start + 1
        while end < len(areas) and _worst(areas[start : end + 1], side) <= _worst(areas[start:end], side):
            end += 1
        row = areas[start:end]
        depth = sum(row) / side
        along = 0.0
        for area in row:
            length = area / depth
            if width >= height:
                found.append(Rectangle(x, y + along, depth, length))
            else:
                found.append(Rectangle(x + along, y, length, depth))
            along += length
        if width >= height:
            x, width = x + depth, width - depth
        else:
            y, height = y + depth, height - depth
        start = end
    return [
        Rectangle(cell.x / ASPECT * 100, cell.y * 100, cell.width / ASPECT * 100, cell.height * 100) for cell in found
    ]


def _worst(row: Sequence[float], side: float) -> float:
    """The largest ratio of a rectangle's sides when a row of these areas is laid along ``side``."""
    whole = sum(row)
    return max(side**2 * max(row) / whole**2, whole**2 / (side**2 * min(row)))
