"""Figures as people read them; an absent one is a dash."""

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


def size(value: int | None) -> str:
    """Bytes in decimal units."""
    return ABSENT if value is None else decimal(value)


def level(value: float | None) -> str:
    """A ratio of powers in dB; 200 and more stand for an exact match."""
    if value is None:
        return ABSENT
    return "exact" if value >= 200 else f"{value:.1f} dB"


def figure(value: float | None) -> str:
    """An error figure, three significant digits."""
    return ABSENT if value is None else f"{value:.3g}"
