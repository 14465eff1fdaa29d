"""Latency statistics over raw samples, and the comparison of two measurements.

All times are milliseconds. Percentiles interpolate linearly between order statistics (type 7 of Hyndman & Fan, "Sample
Quantiles in Statistical Packages", 1996; numpy's default). Standard deviations have n − 1 below.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tvmake.storage.documents import FailsFast

OUTLIER_SCORE = 3.5
"""Modified z-score beyond which a sample is an outlier (Iglewicz & Hoaglin, "How to Detect and Handle Outliers", 1993)."""

DRIFT_SAMPLES = 8
"""With fewer samples than this, drift is not judged."""

RESAMPLES = 2000
CONFIDENCE = 0.95
"""Of the interval of a ratio."""

THRESHOLD = 0.05
"""The relative change that is ignored, regardless of its significance."""

CHUNK = 2_000_000
"""Resampled values in memory at once."""

Percentile = Literal["p50", "p90", "p99"]


SampleMs = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
"""A latency that somebody measured: 30 years at most."""


class LatencyStatistics(FailsFast, BaseModel):
    """Statistics of one measurement, in ms unless the name has another unit.

    ``cv`` is the standard deviation over the mean. ``mad_ms`` is the median absolute deviation from the median.
    ``drift`` is the median of the last quarter of the samples over that of the first quarter, minus 1: above 0 the
    device became slower. ``noise`` has the reasons why the figures are less precise than ``noise_cv``; it is empty for a
    quiet measurement.
    """

    model_config = ConfigDict(extra="forbid")

    samples: int
    mean_ms: float
    std_ms: float
    cv: float
    min_ms: float
    max_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    mad_ms: float
    outliers: int
    drift: float | None
    noise_cv: float
    noise: list[str]

    @property
    def is_noisy(self) -> bool:
        return bool(self.noise)

    def percentile_ms(self, percentile: Percentile) -> float:
        """The statistic that a measurement is judged by."""
        return float(getattr(self, f"{percentile}_ms"))


def latency_statistics(samples_ms: Sequence[float], noise_cv: float = 0.05) -> LatencyStatistics:
    """Statistics of raw samples in order of measurement.

    Args:
        noise_cv: a measurement with a larger coefficient of variation or drift is noisy.

    Raises:
        ValueError: there are no samples, or one is negative or not finite.
    """
    samples = _check_samples(samples_ms)
    mean, median = float(samples.mean()), float(np.median(samples))
    std = float(samples.std(ddof=1)) if samples.size > 1 else 0.0
    cv = std / mean if mean > 0 else 0.0
    drift = _drift(samples)
    noise = []
    if cv > noise_cv:
        noise.append(f"samples vary by {cv:.1%} of their mean")
    if drift is not None and drift >= 1:
        noise.append(f"the last quarter takes {1 + drift:.3g} times as long as the first")
    elif drift is not None and abs(drift) > noise_cv:
        noise.append(f"the last quarter is {abs(drift):.1%} {'slower' if drift > 0 else 'faster'} than the first")
    p50, p90, p99 = (float(value) for value in np.percentile(samples, [50, 90, 99], method="linear"))
    return LatencyStatistics(
        samples=samples.size,
        mean_ms=mean,
        std_ms=std,
        cv=cv,
        min_ms=float(samples.min()),
        max_ms=float(samples.max()),
        p50_ms=p50,
        p90_ms=p90,
        p99_ms=p99,
        mad_ms=float(np.median(np.abs(samples - median))),
        outliers=count_outliers(samples.tolist()),
        drift=drift,
        noise_cv=noise_cv,
        noise=noise,
    )


def count_outliers(samples_ms: Sequence[float]) -> int:
    """Samples whose modified z-score 0.6745·|x − median| / MAD is beyond 3.5.

    If more than half of the samples are equal, the MAD is 0; the mean absolute deviation times 1.2533 / 1.4826 replaces
    it, as Iglewicz and Hoaglin advise.
    """
    samples = _check_samples(samples_ms)
    deviations = np.abs(samples - np.median(samples))
    scale = float(np.median(deviations)) / 0.6745 or float(deviations.mean()) * 1.2533
    return int(np.count_nonzero(deviations > OUTLIER_SCORE * scale)) if scale > 0 else 0


class LatencyComparison(FailsFast, BaseModel):
    """The comparison of two measurements.

    ``ratio`` is the candidate's statistic over the baseline's; below 1 the candidate is faster. ``low`` and ``high``
    bound it with 95 % confidence. ``verdict`` is "same" unless the interval excludes 1 *and* the change exceeds
    ``threshold``: latencies differ between days by more than the spread of their samples.
    """

    model_config = ConfigDict(extra="forbid")

    percentile: Percentile
    baseline_ms: float
    candidate_ms: float
    ratio: float
    low: float
    high: float
    threshold: float
    verdict: Literal["faster", "slower", "same"]


def compare_latency(
    baseline_ms: Sequence[float],
    candidate_ms: Sequence[float],
    threshold: float = THRESHOLD,
    percentile: Percentile = "p50",
) -> LatencyComparison:
    """Compare two sets of samples by a percentile, with a bootstrap confidence interval of the ratio.

    The percentile bootstrap (Efron & Tibshirani, 1993, chapter 13) resamples both sides 2,000 times with a fixed
    seed, so equal samples give an equal verdict. Neighbouring samples are not independent, because they share the machine's state:
    blocks of n^(1/3) of them are drawn together, in a circle (Politis & Romano, "A circular block-resampling procedure
    for stationary data", 1992).

    Args:
        threshold: the relative change that is ignored, regardless of its significance.

    Raises:
        ValueError: a side has no samples, or one is negative or not finite.
    """
    baseline, candidate = _check_samples(baseline_ms), _check_samples(candidate_ms)
    quantile = float(percentile[1:])
    before, after = (float(np.percentile(samples, quantile)) for samples in (baseline, candidate))
    ratios = _ratio(_resample(candidate, quantile, 1), _resample(baseline, quantile, 0))
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = (float(value) for value in np.percentile(ratios, [tail, 100 - tail]))
    ratio = float(_ratio(np.array(after), np.array(before)))
    verdict: Literal["faster", "slower", "same"] = "same"
    if high < 1 and ratio < 1 / (1 + threshold):
        verdict = "faster"
    elif low > 1 and ratio > 1 + threshold:
        verdict = "slower"
    return LatencyComparison(
        percentile=percentile,
        baseline_ms=before,
        candidate_ms=after,
        ratio=ratio,
        low=low,
        high=high,
        threshold=threshold,
        verdict=verdict,
    )


class Speedup(NamedTuple):
    """How many times as fast as its baseline a package is, with the bounds of a 95 % confidence interval."""

    ratio: float
    low: float
    high: float


def relative_change(old: Speedup, new: Speedup) -> Speedup:
    """The slowdown of a package relative to its baseline, which was measured in the same minutes in both runs.

    Slowdowns of the whole machine affect both and cancel out. The bounds assume normal, independent logarithms of both
    speedups.
    """
    change = old.ratio / new.ratio
    spread = math.hypot(*(math.log(speedup.high / speedup.low) / 2 for speedup in (old, new)))
    return Speedup(change, change / math.exp(spread), change * math.exp(spread))


def _check_samples(samples_ms: Sequence[float]) -> np.ndarray:
    samples = np.asarray(samples_ms, np.float64)
    if samples.ndim != 1 or not samples.size:
        raise ValueError("latency statistics need at least one sample")
    if not np.isfinite(samples).all() or samples.min() < 0:
        raise ValueError("latency samples must be finite and not negative")
    return samples


def _drift(samples: np.ndarray) -> float | None:
    if samples.size < DRIFT_SAMPLES:
        return None
    quarter = samples.size // 4
    first, last = float(np.median(samples[:quarter])), float(np.median(samples[-quarter:]))
    return last / first - 1 if first > 0 else None


def _resample(samples: np.ndarray, quantile: float, side: int) -> np.ndarray:
    """The quantile of RESAMPLES resamples.

    Args:
        side: 0 or 1; the sides of a comparison are drawn independently.
    """
    return _resample_bytes(samples.tobytes(), quantile, side)


@lru_cache(maxsize=1024)
def _resample_bytes(values: bytes, quantile: float, side: int) -> np.ndarray:
    """See :func:`_resample`; a report compares a variant with several others."""
    samples = np.frombuffer(values, np.float64)
    order = np.argsort(samples, kind="stable")
    ascending = samples[order]
    index = (samples.size - 1) * quantile / 100
    lower = math.floor(index)
    parts = []
    # Some at a time: 2,000 × 100,000 counts would not fit in memory.
    at_once = max(1, CHUNK // samples.size)
    for begin in range(0, RESAMPLES, at_once):
        counts = _draw_counts(samples.size, side, begin, min(at_once, RESAMPLES - begin))
        # Row i: how many of the resample's values are among the i + 1 smallest samples.
        drawn = np.cumsum(counts[order], axis=0, dtype=counts.dtype)
        below, above = (
            ascending[np.count_nonzero(drawn <= position, axis=0)]
            for position in (lower, min(lower + 1, samples.size - 1))
        )
        parts.append(below + (above - below) * (index - lower))
    return np.concatenate(parts)


@lru_cache(maxsize=8)
def _draw_counts(size: int, side: int, begin: int, count: int) -> np.ndarray:
    """How often each sample is drawn in ``count`` resamples of blocks; (samples, resamples).

    Args:
        begin: the first resample's number.
    """
    block = max(1, round(size ** (1 / 3)))
    random = np.random.RandomState((side, begin))
    starts = random.randint(0, size, (count, -(-size // block)))
    drawn = (starts[:, :, None] + np.arange(block)).reshape(count, -1)[:, :size] % size
    counts = np.bincount((drawn * count + np.arange(count)[:, None]).ravel(), minlength=size * count)
    return counts.reshape(size, count).astype(np.int16 if size < 2**15 else np.int32)


def _ratio(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    # A latency of 0 ms is below the clock's resolution; the smallest float keeps the ratio defined.
    tiny = np.finfo(np.float64).tiny
    return np.minimum(np.maximum(after, tiny) / np.maximum(before, tiny), np.finfo(np.float64).max)
