"""Error figures of one output, accumulated over samples.

All arithmetic is float64. Figures are finite, so that JSON can represent them: ratios in decibels are capped at ±200 (an
exact match has no noise; float32 resolves about 150 dB), other overflows at the largest float64.

Elements that are NaN on both sides, or the same infinity, count as equal. An element that is finite on one side only is a
``nonfinite_mismatch`` and is excluded from the other figures, which would all be NaN.
"""

import math
import sys
from dataclasses import dataclass, field

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tvmake.config.validation import Goals
from tvmake.storage.documents import FailsFast

DECIBEL_CAP = 200.0
RELATIVE_FLOOR = 0.01
"""The share of an output's largest |reference| that is the minimum denominator of relative errors."""


class NonFinite(FailsFast, BaseModel):
    """Elements that are not numbers."""

    model_config = ConfigDict(extra="forbid")

    nan: int = 0
    inf: int = 0


class OutputFigures(FailsFast, BaseModel):
    """The comparison of one output, over all samples.

    ``max_rel`` and ``mean_rel`` are relative to |reference|, floored at 1 % of the largest |reference| of the sample.
    ``max_abs_rms`` is the largest |error| as a share of the RMS of the reference in the same sample.
    ``worst_cosine`` and ``worst_sqnr_db`` are those of the worst sample, ``worst_sample`` its index (by SQNR).
    ``beyond_tolerance`` counts elements with |got − reference| > atol + rtol·|reference|; ``worst_excess`` is the
    largest ratio of the two sides. Both are None without such a goal. ``equal`` is the share of equal elements;
    ``is_within_step`` whether all elements of an 8-bit output are equal or one step apart.
    ``sensitivity_db`` is the power of the reference's change from one sample to the next against the error's power;
    None for a single sample.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    dtype: str
    elements: int
    equal: float
    is_within_step: bool = Field(default=False, exclude_if=lambda value: not value)
    max_abs: float
    max_abs_rms: float
    mean_abs: float
    max_rel: float
    mean_rel: float
    cosine: float
    worst_cosine: float
    sqnr_db: float
    worst_sqnr_db: float
    worst_sample: int
    beyond_tolerance: int | None
    worst_excess: float | None
    sensitivity_db: float | None
    reference_change: float | None
    nonfinite_reference: NonFinite
    nonfinite_got: NonFinite
    nonfinite_mismatches: int


def decibels(signal: float, noise: float) -> float:
    """10·log10(signal / noise) of two powers, within ±200; no noise is 200, noise without signal −200."""
    if noise <= 0:
        return DECIBEL_CAP
    if signal <= 0 or not math.isfinite(noise):
        return -DECIBEL_CAP
    return min(max(10 * (math.log10(signal) - math.log10(noise)), -DECIBEL_CAP), DECIBEL_CAP)


def cosine_similarity(dot: float, power_a: float, power_b: float) -> float:
    """Cosine from a dot product and two sums of squares; 1 when both vectors are zero, 0 when one is."""
    if power_a == 0 and power_b == 0:
        return 1.0
    norm = math.sqrt(power_a) * math.sqrt(power_b)
    if norm == 0 or not math.isfinite(norm) or not math.isfinite(dot):
        return 0.0
    return min(max(dot / norm, -1.0), 1.0)


def finite(value: float) -> float:
    """``value``, or the largest float64 of its sign where it overflowed; 0 for a ratio of two overflows."""
    if math.isnan(value):
        return 0.0
    return float(min(max(value, -sys.float_info.max), sys.float_info.max))


@dataclass
class Powers:
    """The sums over elements for cosine and SQNR."""

    reference: float = 0.0
    got: float = 0.0
    dot: float = 0.0
    error: float = 0.0

    @classmethod
    def of(cls, reference: np.ndarray, got: np.ndarray) -> "Powers":
        error = got - reference
        return cls(
            float(np.dot(reference, reference)),
            float(np.dot(got, got)),
            float(np.dot(reference, got)),
            float(np.dot(error, error)),
        )

    def add(self, powers: "Powers") -> None:
        self.reference += powers.reference
        self.got += powers.got
        self.dot += powers.dot
        self.error += powers.error

    def cosine(self) -> float:
        return cosine_similarity(self.dot, self.reference, self.got)

    def sqnr_db(self) -> float:
        return decibels(self.reference, self.error)


@dataclass
class OutputComparison:
    """Accumulates the figures of one output; stores one earlier reference, not all samples."""

    name: str
    goals: Goals
    dtype: str = ""
    samples: int = 0
    elements: int = 0
    equal: int = 0
    compared: int = 0
    max_abs: float = 0.0
    max_abs_rms: float = 0.0
    sum_abs: float = 0.0
    max_rel: float = 0.0
    sum_rel: float = 0.0
    beyond: int = 0
    excess: float = 0.0
    powers: Powers = field(default_factory=Powers)
    worst_cosine: float = 1.0
    worst_sqnr_db: float = DECIBEL_CAP
    worst_sample: int = 0
    mismatches: int = 0
    change: float = 0.0
    changes: int = 0
    nonfinite_reference: NonFinite = field(default_factory=NonFinite)
    nonfinite_got: NonFinite = field(default_factory=NonFinite)
    _previous: dict[int, np.ndarray] = field(default_factory=dict)
    """The last sample of each size: shapes may alternate."""

    def add(self, reference: np.ndarray, got: np.ndarray) -> None:
        """Add one sample; both arrays have the same shape, dtypes may differ."""
        self.dtype = self.dtype or str(reference.dtype)
        expected = np.asarray(reference, dtype=np.float64).ravel()
        actual = np.asarray(got, dtype=np.float64).ravel()
        self._count_nonfinite(expected, self.nonfinite_reference)
        self._count_nonfinite(actual, self.nonfinite_got)
        same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
        both_finite = np.isfinite(expected) & np.isfinite(actual)
        self.elements += expected.size
        self.equal += _equal_elements(reference, got, same)
        self.mismatches += int(np.count_nonzero(~same & ~both_finite))
        with np.errstate(over="ignore", invalid="ignore"):
            self._add_finite(expected[both_finite], actual[both_finite])
            self._add_change(expected)
        self.samples += 1

    def _add_finite(self, expected: np.ndarray, actual: np.ndarray) -> None:
        if not expected.size:
            return
        error, magnitude = np.abs(actual - expected), np.abs(expected)
        denominator = np.maximum(magnitude, RELATIVE_FLOOR * magnitude.max())
        # Relative to a reference of zeros, any error is 100 %.
        relative = np.divide(error, denominator, out=(error > 0).astype(np.float64), where=denominator > 0)
        self.compared += expected.size
        self.max_abs = max(self.max_abs, float(error.max()))
        rms = math.sqrt(float(np.dot(expected, expected)) / expected.size)
        if error.any():
            self.max_abs_rms = max(self.max_abs_rms, float(error.max()) / rms if rms > 0 else math.inf)
        self.sum_abs += float(error.sum())
        self.max_rel = max(self.max_rel, float(relative.max()))
        self.sum_rel += float(relative.sum())
        if self.goals.rtol is not None or self.goals.atol is not None:
            tolerance = (self.goals.atol or 0.0) + (self.goals.rtol or 0.0) * magnitude
            excess = np.divide(error, tolerance, out=np.where(error > 0, np.inf, 0.0), where=tolerance > 0)
            self.beyond += int(np.count_nonzero(error > tolerance))
            self.excess = max(self.excess, float(excess.max()))
        sample = Powers.of(expected, actual)
        self.powers.add(sample)
        self.worst_cosine = min(self.worst_cosine, sample.cosine())
        if sample.sqnr_db() < self.worst_sqnr_db:
            self.worst_sqnr_db, self.worst_sample = sample.sqnr_db(), self.samples

    def _add_change(self, expected: np.ndarray) -> None:
        if expected.size in self._previous:
            change = expected - self._previous[expected.size]
            change = change[np.isfinite(change)]
            self.change += float(np.dot(change, change))
            self.changes += 1
        self._previous[expected.size] = expected

    @staticmethod
    def _count_nonfinite(values: np.ndarray, count: NonFinite) -> None:
        count.nan += int(np.count_nonzero(np.isnan(values)))
        count.inf += int(np.count_nonzero(np.isinf(values)))

    def figures(self) -> OutputFigures:
        """The figures so far."""
        compared = max(self.compared, 1)
        has_tolerance = self.goals.rtol is not None or self.goals.atol is not None
        # Powers per sample, because there is one change fewer than there are samples.
        change = self.change / self.changes if self.changes else None
        error = self.powers.error / max(self.samples, 1)
        return OutputFigures(
            name=self.name,
            dtype=self.dtype,
            elements=self.elements,
            equal=self.equal / self.elements if self.elements else 1.0,
            is_within_step=self.dtype in ("int8", "uint8") and self.max_abs <= 1,
            max_abs=finite(self.max_abs),
            max_abs_rms=finite(self.max_abs_rms),
            mean_abs=finite(self.sum_abs / compared),
            max_rel=finite(self.max_rel),
            mean_rel=finite(self.sum_rel / compared),
            cosine=self.powers.cosine(),
            worst_cosine=self.worst_cosine,
            sqnr_db=self.powers.sqnr_db(),
            worst_sqnr_db=self.worst_sqnr_db,
            worst_sample=self.worst_sample,
            beyond_tolerance=self.beyond if has_tolerance else None,
            worst_excess=finite(self.excess) if has_tolerance else None,
            sensitivity_db=None if change is None else decibels(change, error),
            reference_change=None if change is None else finite(_relative_change(change, self)),
            nonfinite_reference=self.nonfinite_reference,
            nonfinite_got=self.nonfinite_got,
            nonfinite_mismatches=self.mismatches,
        )


def _relative_change(change: float, comparison: OutputComparison) -> float:
    power = comparison.powers.reference / max(comparison.samples, 1)
    return math.sqrt(change / power) if power > 0 else 0.0


def _equal_elements(reference: np.ndarray, got: np.ndarray, same: np.ndarray) -> int:
    # float64 cannot represent large int64 values exactly.
    if reference.dtype.kind in "iub" and got.dtype.kind in "iub":
        return int(np.count_nonzero(reference == got))
    return int(np.count_nonzero(same))
