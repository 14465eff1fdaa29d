"""Curves: the best rate by trial of a kernel's search, a variant's latency by run."""

from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT = 100, 60
PIXELS = 84


def steps_svg(points: Sequence[tuple[float, float]], level: float | None, name: str) -> Markup:
    """A step curve from 0 upwards; ``level`` is a dashed line for comparison.

    Args:
        points: (x, y) in ascending order of x, at least one.
        level: y of the dashed line.
        name: the curve's description, for screen readers.
    """
    last = max(points[-1][0], 1e-9)
    top = max(*(value for _, value in points), level or 0.0, 1e-300) * 1.05
    first_x, first_y = points[0]
    path = f"M{_x(first_x, last)},{_y(first_y, top)}"
    for trial, value in points[1:]:
        path += f"H{_x(trial, last)}V{_y(value, top)}"
    return _svg(path, None if level is None else f"M0,{_y(level, top)}H{WIDTH}", name)


def line_svg(values: Sequence[float], name: str, others: Sequence[float] = ()) -> Markup:
    """Values one after the other, from 0 upwards.

    Args:
        others: as many values for comparison, as a dashed line.
    """
    last, top = max(len(values) - 1, 1), max(*values, *others, 1e-300) * 1.05

    def path(heights: Sequence[float]) -> str:
        return "M" + "L".join(f"{_x(number, last)},{_y(value, top)}" for number, value in enumerate(heights))

    return _svg(path(values), path(others) if others else None, name)


def _svg(path: str, other: str | None, name: str) -> Markup:
    dashed = (
        Markup("")
        if other is None
        else Markup('<path class="level" d="{}" vector-effect="non-scaling-stroke"/>').format(other)
    )
    return Markup(
        '<svg class="curve" role="img" aria-label="{}" width="100%" height="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">'
        '<path class="grid" d="M0,{}H{}" vector-effect="non-scaling-stroke"/>{}'
        '<path class="line" d="{}" vector-effect="non-scaling-stroke"/></svg>'
    ).format(name, PIXELS, WIDTH, HEIGHT, HEIGHT, WIDTH, dashed, path)


def _x(value: float, last: float) -> float:
    return round(value / last * WIDTH, 2)


def _y(value: float, top: float) -> float:
    return round(HEIGHT * (1 - value / top), 2)
