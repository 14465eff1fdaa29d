"""Choose the range of a tensor that 8 bits cover, from observed values."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tvmake.quantize.precision import CalibrationOptions

BINS = 2048
"""Number of bins of a tensor's histogram."""

LEVELS = 256
"""Number of quantisation levels of 8 bits, for the divergence."""


@dataclass
class Observer:
    """Collects a tensor's extremes and then, in a second pass, its histogram."""

    lowest: float = np.inf
    highest: float = -np.inf
    counts: np.ndarray = field(default_factory=lambda: np.zeros(BINS, np.int64))
    zeros: int = 0
    """Number of counted values that are exactly 0."""

    def extend(self, values: np.ndarray) -> None:
        """Update the extremes with a sample's values."""
        if values.size:
            self.lowest = min(self.lowest, float(values.min()))
            self.highest = max(self.highest, float(values.max()))

    def count(self, values: np.ndarray) -> None:
        """Add a sample's values to the histogram."""
        self.counts += self._histogram(values)
        self.zeros += int(np.count_nonzero(values == 0))

    def range(self, options: CalibrationOptions) -> tuple[float, float]:
        """Return the range that 8 bits cover."""
        if options.method == "minmax" or self.highest <= self.lowest:
            return self.lowest, self.highest
        edges = np.linspace(self.lowest, self.highest, BINS + 1)
        if options.method == "percentile":
            return _within(self.counts, edges, options.percentile / 100)
        # 0 is represented exactly and loses nothing; the zeros after a ReLU would outweigh all other values.
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
    """Clip both ends in proportion, where 8-bit values lose least information.

    S. Migacz, "8-bit inference with TensorRT" (GTC 2017): clipped values count in the outermost bins.
    """
    best, best_width = np.inf, BINS
    zero = int(np.clip(np.searchsorted(edges, 0.0), 0, BINS))
    for width in range(LEVELS, BINS + 1, 16):
        low, high = _bin_range(zero, width)
        divergence = _divergence(counts, low, high)
        if divergence < best:
            best, best_width = divergence, width
    low, high = _bin_range(zero, best_width)
    return float(edges[low]), float(edges[high])


def _bin_range(zero: int, width: int) -> tuple[int, int]:
    """Select ``width`` bins, with equal fractions of the bins below and above zero."""
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
    """Return the indices of tensors with a single value."""
    return [number for number, observer in enumerate(observers) if observer.highest <= observer.lowest]
