"""Discrete Fourier transforms of fixed length as matrices."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

MAX_LENGTH = 4096
"""Elements of the longest transform; the matrix has the square of this."""

Kind = Literal["forward", "inverse", "to_half", "from_half"]
"""The direction. The spectrum of a real signal has two equal halves: ``to_half`` returns one half, ``from_half`` takes one."""


class FourierStep(NamedTuple):
    """The matrix of a transform along one axis."""

    axis: int
    cosine: np.ndarray
    sine: np.ndarray
    """Both [elements before, elements after], float64; the sine has the sign of the direction."""
    gives_real: bool


def fourier_steps(
    kind: Kind, axes: Sequence[int], lengths: Sequence[int], scale: Callable[[int, int], float]
) -> Iterator[FourierStep]:
    """The steps of a transform along several axes: the last axis first, or last if the result is real.

    Args:
        kind: the direction.
        axes: counted from the front.
        lengths: of the signal along these axes.
        scale: the factor of a step, from its number and its length.
    """
    order = list(zip(axes, lengths, strict=True))
    if kind != "from_half":
        order.reverse()
    for number, (axis, length) in enumerate(order):
        factor = scale(number, length)
        if kind == "from_half" and number == len(order) - 1:
            yield FourierStep(axis, *half_spectrum_matrix(length, factor), True)
            continue
        bins = length // 2 + 1 if kind == "to_half" and number == 0 else length
        cosine, sine = fourier_matrix(length, bins, factor)
        yield FourierStep(axis, cosine, sine if kind in ("inverse", "from_half") else -sine, False)


def fourier_matrix(length: int, bins: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines, [length, bins], times ``scale``, in float64.

    Zeros are exact: the first and the middle bin of a real signal have an imaginary part of zero, and the angle of a negative
    number jumps by a full turn if its imaginary part is slightly below zero.
    """
    turns = (np.arange(length)[:, None] * np.arange(bins)[None, :]) % length
    angle = 2 * np.pi * turns / length
    cosine = np.where((4 * turns == length) | (4 * turns == 3 * length), 0.0, np.cos(angle))
    return cosine * scale, np.where(2 * turns % length == 0, 0.0, np.sin(angle)) * scale


def half_spectrum_matrix(
    length: int, scale: float = 1.0, dtype: "np.typing.DTypeLike" = "float64"
) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines from the stored half of a spectrum to its real signal, [bins, length].

    The other half mirrors it: all bins but the first and the middle one count twice.
    """
    bins = length // 2 + 1
    twice = np.full(bins, 2, dtype)
    twice[0] = 1
    if length % 2 == 0:
        twice[-1] = 1
    cosine, sine = (part.astype(dtype) for part in fourier_matrix(length, bins, scale))
    return (cosine * twice).T, (sine * twice).T
