"""Where the time goes: kernels as rectangles of proportional area.

Rectangles are laid out in rows that are as square as can be: Bruls, Huizing & van Wijk, "Squarified Treemaps", 2000.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

HEIGHT = 240
ASPECT = 3.0
"""Width over height that rectangles are made square for; a page's width is not known when it is made."""
SMALLEST = 0.004
"""Share of the whole below which kernels are drawn as one."""


@dataclass(frozen=True)
class Cell:
    """A kernel: its share of the time, and a CSS class that says how it is scheduled."""

    name: str
    share: float
    kind: str
    about: str


@dataclass(frozen=True)
class Rectangle:
    """Places and sizes in per cent of the map's width and height."""

    x: float
    y: float
    width: float
    height: float


def treemap_svg(cells: Sequence[Cell], name: str) -> Markup:
    """The map as SVG; names are cut off where their rectangle ends.

    Args:
        cells: kernels with positive shares.
        name: what the map shows, for readers who do not see it.
    """
    large = [cell for cell in cells if cell.share >= SMALLEST]
    if small := [cell for cell in cells if cell.share < SMALLEST]:
        share = sum(cell.share for cell in small)
        large.append(Cell(f"{len(small)} others", share, "rest", f"{len(small)} kernels, each below {SMALLEST:.1%}"))
    large.sort(key=lambda cell: -cell.share)
    places = layout([cell.share for cell in large])
    parts = [
        Markup(
            '<svg x="{}%" y="{}%" width="{}%" height="{}%"><title>{}</title><rect class="cell {}" width="100%" height="100%"/>'
            '<text x="6" y="17">{}</text><text class="tick" x="6" y="32">{:.1%}</text></svg>'
        ).format(
            round(place.x, 3),
            round(place.y, 3),
            round(place.width, 3),
            round(place.height, 3),
            f"{cell.name}: {cell.about}",
            cell.kind,
            cell.name,
            cell.share,
        )
        for cell, place in zip(large, places, strict=True)
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
    return [Rectangle(one.x / ASPECT * 100, one.y * 100, one.width / ASPECT * 100, one.height * 100) for one in found]


def _worst(row: Sequence[float], side: float) -> float:
    """The largest ratio of a rectangle's sides when a row of these areas is laid along ``side``."""
    whole = sum(row)
    return max(side**2 * max(row) / whole**2, whole**2 / (side**2 * min(row)))
