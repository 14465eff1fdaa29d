"""The discrete Fourier transform as a matrix."""

import numpy as np


def fourier_matrix(length: int, bins: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines, [length, bins], times ``scale``, in float64.

    Those that are zero are so exactly: the imaginary parts of the first and the middle bin of real numbers are zero, and the angle of a
    number below zero turns by a whole circle where its imaginary part is ever so slightly below zero.
    """
    turns = (np.arange(length)[:, None] * np.arange(bins)[None, :]) % length
    angle = 2 * np.pi * turns / length
    cosine = np.where((4 * turns == length) | (4 * turns == 3 * length), 0.0, np.cos(angle))
    return cosine * scale, np.where(2 * turns % length == 0, 0.0, np.sin(angle)) * scale
