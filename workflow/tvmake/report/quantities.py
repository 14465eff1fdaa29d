"""Figures as people read them; an absent one is a dash."""

from datetime import UTC, datetime

from rich.filesize import decimal

ABSENT = "–"


def milliseconds(value: float | None) -> str:
    """Four significant digits or so, never in exponent form: 0.1234, 12.34, 123.4."""
    if value is None:
        return ABSENT
    decimals = 4 if value < 1 else 3 if value < 10 else 2 if value < 100 else 1
    return f"{value:.{decimals}f}"


def share(value: float | None, decimals: int = 2) -> str:
    """A share of 1 as per cent."""
    return ABSENT if value is None else f"{value * 100:.{decimals}f} %"


def change(ratio: float | None) -> str:
    """A ratio as a signed change in per cent."""
    return ABSENT if ratio is None else f"{(ratio - 1) * 100:+.1f} %"


def interval(low: float | None, high: float | None) -> str:
    """Bounds of a ratio as signed changes in per cent."""
    return ABSENT if low is None or high is None else f"{(low - 1) * 100:+.1f} … {(high - 1) * 100:+.1f} %"


def times(ratio: float | None) -> str:
    """A factor, three significant digits or so: 0.051 ×, 1.34 ×, 17.2 ×."""
    if ratio is None:
        return ABSENT
    decimals = 3 if ratio < 0.1 else 2 if ratio < 10 else 1 if ratio < 100 else 0
    return f"{ratio:.{decimals}f} ×"


WIDE = 1.25
"""Upper over lower bound of a factor from which only the bounds are shown."""


def is_wide(low: float | None, high: float | None) -> bool:
    """Whether a factor is too uncertain to be shown without its bounds."""
    return low is not None and high is not None and high > low * WIDE


def times_within(ratio: float | None, low: float | None, high: float | None) -> str:
    """A factor with its bounds: ``2.45 × (2.40–2.50)``; without the factor if they are far apart: ``1.90–9.30 ×``."""
    if ratio is None or low is None or high is None:
        return times(ratio)
    bounds = f"{times(low).removesuffix(' ×')}–{times(high).removesuffix(' ×')}"
    return f"{bounds} ×" if is_wide(low, high) else f"{times(ratio)} ({bounds})"


def rate(gflops: float) -> str:
    """GFLOPS, three significant digits, never in exponent form: 0.81, 141, 61800."""
    return f"{gflops:.0f}" if gflops >= 1000 else f"{gflops:.3g}"


def size(value: int | None) -> str:
    """Bytes in decimal units."""
    return ABSENT if value is None else decimal(value)


def level(value: float | None) -> str:
    """A ratio of powers in dB; 200 and more represent an exact match."""
    if value is None:
        return ABSENT
    return "exact" if value >= 200 else f"{value:.1f} dB"


def figure(value: float | None) -> str:
    """An error figure, three significant digits."""
    return ABSENT if value is None else f"{value:.3g}"


def moment(text: str) -> str:
    """A time in ISO 8601 to the minute, in UTC: ``2026-11-20 10:00 UTC``."""
    try:
        return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return text
