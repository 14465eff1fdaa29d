"""Scales of axes: from values to positions."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

LOGARITHMIC_FROM = 8
"""Largest value over smallest from which an axis is logarithmic."""


@dataclass(frozen=True)
class Scale:
    """An axis from ``low`` to ``high``, drawn between ``start`` and ``end`` (per cent or pixels)."""

    low: float
    high: float
    start: float = 0.0
    end: float = 100.0
    is_log: bool = False

    def at(self, value: float) -> float:
        """The position of a value, which is clipped to a range around the axis."""
        low, high, value = (math.log(bound) for bound in (self.low, self.high, value)) if self.is_log else (
            self.low, self.high, value
        )  # fmt: skip
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.start + min(max(share, 0.0), 1.0) * (self.end - self.start), 3)

    def ticks(self) -> list[float]:
        """Round values on the axis, three or somewhat more."""
        if self.is_log:
            ticks = [
                digit * 10.0**power
                for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
                for digit in (1, 2, 5)
                if self.low <= digit * 10.0**power <= self.high
            ]
            return ticks[:: max(1, len(ticks) // 4)]
        step = _round_step((self.high - self.low) / 3)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def fitting(values: Iterable[float], start: float, end: float, *, may_be_log: bool = True) -> Scale:
    """A scale for all values with a margin; logarithmic if they differ by large factors.

    Args:
        values: at least one.
        start: the position of the axis' lower end.
        end: the position of its upper end.
        may_be_log: whether the scale may be logarithmic.
    """
    points = list(values)
    low, high = min(points), max(points)
    if may_be_log and low > 0 and high / low >= LOGARITHMIC_FROM:
        return Scale(low / 1.15, high * 1.15, start, end, is_log=True)
    room = (high - low or abs(high) or 1.0) * 0.08
    return Scale(low - room, high + room, start, end)


def _round_step(step: float) -> float:
    if step <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(digit * power for digit in (5, 2, 1) if digit * power <= step * (1 + 1e-9))
