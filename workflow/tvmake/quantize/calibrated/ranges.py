"""The range that 8 bits should cover of a tensor, from what was seen of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tvmake.quantize.precision import CalibrationOptions

BINS = 2048
"""Of a tensor's histogram."""

LEVELS = 256
"""Steps that a divergence is worked out for: those of 8 bits."""


@dataclass
class Observer:
    """A tensor's extremes, and, once these are known, its histogram."""

    lowest: float = np.inf
    highest: float = -np.inf
    counts: np.ndarray = field(default_factory=lambda: np.zeros(BINS, np.int64))
    zeros: int = 0
    """How many of the values counted are exactly 0."""

    def extend(self, values: np.ndarray) -> None:
        """Take a sample's values into the extremes."""
        if values.size:
            self.lowest = min(self.lowest, float(values.min()))
            self.highest = max(self.highest, float(values.max()))

    def count(self, values: np.ndarray) -> None:
        """Take a sample's values into the histogram."""
        self.counts += self._histogram(values)
        self.zeros += int(np.count_nonzero(values == 0))

    def range(self, options: CalibrationOptions) -> tuple[float, float]:
        """What 8 bits should cover."""
        if options.method == "minmax" or self.highest <= self.lowest:
            return self.lowest, self.highest
        edges = np.linspace(self.lowest, self.highest, BINS + 1)
        if options.method == "percentile":
            return _within(self.counts, edges, options.percentile / 100)
        # 0 is a step of its own: what is 0 loses nothing, and half of a rectified tensor would outweigh all that does.
        return _least_divergence(self.counts - self.zeros * self._histogram(np.zeros(1)), edges)

    def _histogram(self, values: np.ndarray) -> np.ndarray:
        span = (self.lowest, self.highest) if self.highest > self.lowest else (self.lowest, self.lowest + 1)
        return np.histogram(values, BINS, span)[0]


def _within(counts: np.ndarray, edges: np.ndarray, share: float) -> tuple[float, float]:
    total = np.cumsum(counts) / max(1, counts.sum())
    tail = (1 - share) / 2
    low = int(np.searchsorted(total, tail, side="right"))
    high = int(np.searchsorted(total, 1 - tail, side="left"))
    return float(edges[min(low, BINS - 1)]), float(edges[min(high, BINS - 1) + 1])


def _least_divergence(counts: np.ndarray, edges: np.ndarray) -> tuple[float, float]:
    """Cut both ends alike, in proportion, where 8-bit values lose least information.

    S. Migacz, "8-bit inference with TensorRT" (GTC 2017): what is cut off counts for the outermost bins.
    """
    best, chosen = np.inf, BINS
    zero = int(np.clip(np.searchsorted(edges, 0.0), 0, BINS))
    for width in range(LEVELS, BINS + 1, 16):
        low, high = _window(zero, width)
        divergence = _divergence(counts, low, high)
        if divergence < best:
            best, chosen = divergence, width
    low, high = _window(zero, chosen)
    return float(edges[low]), float(edges[high])


def _window(zero: int, width: int) -> tuple[int, int]:
    """``width`` bins with as large a share of those below zero as of those above."""
    low = round(zero * (1 - width / BINS))
    return low, min(BINS, low + width)


def _divergence(counts: np.ndarray, low: int, high: int) -> float:
    inside = counts[low:high].astype(np.float64)
    reference = inside.copy()
    reference[0] += counts[:low].sum()
    reference[-1] += counts[high:].sum()
    groups = np.array_split(np.arange(high - low), LEVELS)
    levels = np.zeros_like(inside)
    for group in groups:
        filled = inside[group] > 0
        if filled.any():
            levels[group[filled]] = inside[group].sum() / filled.sum()
    if not reference.sum() or not levels.sum():
        return np.inf
    p, q = reference / reference.sum(), levels / levels.sum()
    present = p > 0
    return float(np.sum(p[present] * np.log(p[present] / np.maximum(q[present], 1e-12))))


def constant_tensors(observers: Sequence[Observer]) -> list[int]:
    """Which of them hold one value always."""
    return [number for number, observer in enumerate(observers) if observer.highest <= observer.lowest]
