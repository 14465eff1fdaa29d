"""Closeness of values to expected values."""

import numpy as np


def decibels(found: np.ndarray, wanted: np.ndarray) -> float:
    """The signal-to-noise ratio in dB."""
    noise = float(((found.astype("float64") - wanted) ** 2).sum())
    return float(10 * np.log10((wanted.astype("float64") ** 2).sum() / max(noise, 1e-300)))
