"""Ranges of tensors, and their 8-bit grids."""

import numpy as np
import pytest

from tvmake.artifact.calibration import TensorRange
from tvmake.quantize.calibrated.insertion import grid
from tvmake.quantize.calibrated.ranges import Observer
from tvmake.quantize.precision import CalibrationOptions


def observed(values: np.ndarray) -> Observer:
    observer = Observer()
    observer.extend(values)
    observer.count(values)
    return observer


def noise(values: np.ndarray, low: float, high: float) -> float:
    step = (high - low) / 255
    rounded = np.clip(np.rint(values / step), round(low / step), round(high / step)) * step
    return float(np.mean((values - rounded) ** 2))


def test_entropy_ignores_the_zeros_after_a_relu():
    """A spike of zeros, which 8 bits represent exactly, must not cause large values to be clipped."""
    values = np.maximum(np.random.default_rng(0).laplace(size=100_000), 0)
    low, high = observed(values).range(CalibrationOptions(method="entropy"))
    alone = observed(values[values > 0]).range(CalibrationOptions(method="entropy"))
    assert (low, high) == pytest.approx(alone, rel=1e-3, abs=1e-3)
    assert noise(values, low, high) < 4 * noise(values, 0, values.max())


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_clipping_a_few_outliers_reduces_the_noise(method):
    values = np.random.default_rng(0).normal(size=100_000)
    values[:3] = [60, -60, 80]
    inliers = values[3:]
    low, high = observed(values).range(CalibrationOptions(method=method))
    assert noise(inliers, low, high) < noise(inliers, values.min(), values.max()) / 50


@pytest.mark.parametrize("low, high", [(-0.28, 6.0), (-6.0, 0.5), (0.5, 6.0), (-6.0, -0.5), (-1.0, 1.0)])
def test_the_steps_of_a_grid_span_its_range_and_one_of_them_is_0(low, high):
    dtype, scale, zero = grid(TensorRange(name="x", low=low, high=high, lowest=low, highest=high))
    bounds = np.iinfo(dtype)
    assert bounds.min <= zero <= bounds.max
    assert float(scale) == pytest.approx((max(high, 0) - min(low, 0)) / 255)
