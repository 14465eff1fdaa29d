"""Whether the errors of a package with states grow from step to step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from tvmake.validate.figures import Powers

FEWEST = 8
"""Steps from which the beginning and the end of sequences are compared."""

GROWTH_DB = 10.0
"""A loss of this many decibels from the first quarter of the steps to the last counts as growth."""

NEGLIGIBLE_DB = 80.0
"""Errors this far below the outputs may grow: rounding in float32 adds up."""


@dataclass
class StepErrors:
    """Sums for the errors of each step, over all sequences.

    Args:
        steps: samples in a sequence; 0: all are one.
    """

    steps: int
    _samples: int = 0
    _powers: dict[str, list[Powers]] = field(default_factory=dict)
    """By output, for each step."""

    def add(self, reference: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> None:
        """Add the next sample, whose arrays have equal shapes where both exist."""
        step = self._samples % self.steps if self.steps else self._samples
        self._samples += 1
        for name, expected in reference.items():
            actual = got.get(name)
            if actual is None or actual.shape != expected.shape:
                continue
            sums = self._powers.setdefault(name, [])
            sums += [Powers() for _ in range(step + 1 - len(sums))]
            pair = [np.asarray(values, np.float64).ravel() for values in (expected, actual)]
            is_finite = np.isfinite(pair[0]) & np.isfinite(pair[1])
            sums[step].add(Powers.of(*(values[is_finite] for values in pair)))

    @property
    def sqnr_db(self) -> list[float]:
        """The signal-to-noise ratio of each step in dB, of the worst output."""
        by_output = [[sums.sqnr_db() for sums in powers] for powers in self._powers.values()]
        return [min(values) for values in zip(*by_output, strict=False)]


def describe_growth(sqnr_db: Sequence[float]) -> str:
    """A warning if the errors grow from step to step; else empty."""
    quarter = len(sqnr_db) // 4
    if len(sqnr_db) < FEWEST:
        return ""
    first, last = median(sqnr_db[:quarter]), median(sqnr_db[-quarter:])
    if first - last < GROWTH_DB or last > NEGLIGIBLE_DB:
        return ""
    return (
        f"errors grow from step to step: {first:.1f} dB in the first quarter of {len(sqnr_db)} steps, {last:.1f} dB in the last; "
        "longer sequences may be worse"
    )
