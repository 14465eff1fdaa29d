"""Weights in 4-bit or 8-bit integers with scales: rounding and memory layout.

Rounded weights are symmetric about 0, with a float32 scale for each output channel or for each group of consecutive inputs
of a channel (grouping in Frantar et al., "GPTQ", ICLR 2023, section 5). A source's integers may have zero points. Two
4-bit integers share a byte, each plus 8.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

BLOCK, HALF_BLOCK = 32, 16
"""Number of inputs whose 4-bit integers share 16 bytes. The first 16 use the lower halves, so that neighbours are read as
vectors."""

MIDDLE = 8
"""Offset of stored 4-bit integers, so that none is negative."""

ELEMENTS_AT_ONCE = 1 << 20
"""Elements of a weight that are rounded at once, in float64."""

SHARES = (1.0, 0.95, 0.9, 0.85, 0.8)
"""Fractions of a group's largest value that the largest 4-bit integer may represent; smaller ones improve the rest."""


@dataclass(frozen=True)
class Integers:
    """A weight [inputs, outputs] in integers."""

    values: np.ndarray
    """int8 [inputs, outputs], or uint8 [⌈inputs / 32⌉, 16, outputs] with two integers of 4 bits in each."""
    scales: np.ndarray
    """float32 [groups, outputs]."""
    group: int
    """Number of inputs that share a scale."""
    zeros: np.ndarray | None = None
    """int8 [groups, outputs], zero points; None if all are 0."""

    @property
    def bits(self) -> int:
        """Bits of an integer: 4 or 8."""
        return 8 if self.values.ndim == 2 else 4


@dataclass(frozen=True)
class Spread:
    """A weight of any shape in 8-bit integers; scales and zero points, in float32, broadcast to it."""

    values: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None = None
    """Zero points; None if all are 0."""


def digest(values: np.ndarray) -> str:
    """Return a hash of a weight's dtype, shape and values."""
    known = hashlib.sha256(f"{values.dtype} {values.shape} ".encode())
    known.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
    return known.hexdigest()


def integers_of(weight: np.ndarray, bits: int, group: int | None) -> Integers:
    """Round a weight [inputs, outputs] to integers.

    Args:
        weight: finite values in float32 or float16.
        bits: 4 or 8.
        group: number of inputs that share a scale; None for all.
    """
    inputs, outputs = weight.shape
    size = min(group or inputs, inputs)
    count = -(-inputs // size)
    values, scales = np.empty((inputs, outputs), np.int8), np.empty((count, outputs), np.float32)
    step = max(1, ELEMENTS_AT_ONCE // max(1, inputs))
    for start in range(0, outputs, step):  # channels are independent, and float64 copies of all of them large
        columns = slice(start, min(start + step, outputs))
        grouped = np.zeros((count * size, columns.stop - start))
        grouped[:inputs] = weight[:, columns]
        grouped = grouped.reshape(count, size, -1)
        scales[:, columns] = _scales_of_8_bits(grouped) if bits == 8 else _scales_of_4_bits(grouped)
        rounded = _round_to_grid(grouped, scales[:, columns], bits)
        values[:, columns] = rounded.reshape(count * size, -1)[:inputs]
    return Integers(values if bits == 8 else _pack(values), scales, size)


def grouped_integers(
    integers: np.ndarray, zeros: np.ndarray, scales: np.ndarray, group: int, least_bits: int
) -> Integers | None:
    """Store integers [inputs, outputs] in the fewest possible bits; None if they need more than 8.

    Args:
        zeros: [groups, outputs], zero points.
        scales: [groups, outputs].
        group: number of inputs that share a row of both.
        least_bits: 4, or 8 to always use 8 bits.
    """
    wide = integers.astype(np.int16)
    centred = wide - np.repeat(zeros.astype(np.int16), group, axis=0)[: len(wide)]
    for bits in (4, 8) if least_bits == 4 else (8,):
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        values, shift = centred, None
        if centred.min(initial=0) < low or centred.max(initial=0) > high:
            shift = int(wide.min()) - low
            values = wide - shift
            if values.max() > high or not -128 <= (zeros - shift).min() <= (zeros - shift).max() <= 127:
                continue
        narrow = values.astype(np.int8)
        return Integers(
            narrow if bits == 8 else _pack(narrow),
            np.ascontiguousarray(scales, np.float32),
            group,
            None if shift is None else np.ascontiguousarray(zeros - shift, np.int8),
        )
    return None


def _round_to_grid(grouped: np.ndarray, scales: np.ndarray, bits: int, out: np.ndarray | None = None) -> np.ndarray:
    low = -(2 ** (bits - 1)) + (1 if bits == 8 else 0)
    steps = np.divide(grouped, scales[:, None, :], out=out)
    return np.clip(np.rint(steps, out=steps), low, 2 ** (bits - 1) - 1, out=steps)


def _normal(scales: np.ndarray) -> np.ndarray:
    """Convert scales to float32, without zeros and subnormal values."""
    signs = np.where(scales < 0, -1.0, 1.0)
    return np.asarray(np.where(scales == 0, 1.0, signs * np.clip(np.abs(scales), 2.0**-100, 2.0**100)), np.float32)


def _scales_of_8_bits(grouped: np.ndarray) -> np.ndarray:
    return _normal(np.abs(grouped).max(axis=1) / 127)


def _scales_of_4_bits(grouped: np.ndarray) -> np.ndarray:
    """Choose the scale with the least squared error, with -8 for the value furthest from 0 or for a fraction of it."""
    below, above = grouped.min(axis=1), grouped.max(axis=1)
    furthest = np.where(-below >= above, below, above)
    best, least = _normal(furthest / -MIDDLE), np.full(furthest.shape, np.inf)
    off = np.empty_like(grouped)  # shared: the system clears new memory
    for share in SHARES:
        scales = _normal(furthest * share / -MIDDLE)
        _round_to_grid(grouped, scales, 4, out=off)
        off *= scales[:, None, :]
        off -= grouped
        off *= off
        # Sum in a fixed order, so that all machines make the same choice.
        error = np.zeros(furthest.shape)
        for index in range(grouped.shape[1]):
            error += off[:, index]
        best, least = np.where(error < least, scales, best), np.minimum(error, least)
    return best


def _pack(values: np.ndarray) -> np.ndarray:
    inputs, outputs = values.shape
    filled = np.zeros((-(-inputs // BLOCK) * BLOCK, outputs), np.int8)
    filled[:inputs] = values
    blocks = (filled + MIDDLE).astype(np.uint8).reshape(-1, 2, HALF_BLOCK, outputs)
    return np.ascontiguousarray(blocks[:, 0] | (blocks[:, 1] << 4))
