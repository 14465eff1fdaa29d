"""Weights as integers of 4 or 8 bits with scales: how they are rounded, and how they lie in memory.

Rounded ones are symmetric about 0, with a scale in float32 for each output channel or for each group of consecutive inputs of it (Frantar
et al., "GPTQ", ICLR 2023, section 5, calls the latter grouping); a source's own may have zero points. Two integers of 4 bits share a
byte, each plus 8.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

BLOCK, HALF_BLOCK = 32, 16
"""Inputs whose integers of 4 bits share 16 bytes: the first 16 have the lower halves, so that neighbours are read as vectors."""

MIDDLE = 8
"""What is added to an integer of 4 bits, so that none is negative."""

SHARES = (1.0, 0.95, 0.9, 0.85, 0.8)
"""Of a group's largest number, which the largest integer of 4 bits is tried to stand for: the rest comes closer where it is less."""


@dataclass(frozen=True)
class Integers:
    """A weight [inputs, outputs] in integers."""

    values: np.ndarray
    """int8 [inputs, outputs], or uint8 [⌈inputs / 32⌉, 16, outputs] with two integers of 4 bits in each."""
    scales: np.ndarray
    """float32 [groups, outputs]."""
    group: int
    """Inputs that share a scale."""
    zeros: np.ndarray | None = None
    """int8, as ``scales``: what stands for 0; None where 0 does."""

    @property
    def bits(self) -> int:
        """Of an integer: 4 or 8."""
        return 8 if self.values.ndim == 2 else 4


@dataclass(frozen=True)
class Spread:
    """A weight of any shape in integers of 8 bits; scales and zero points, in float32, spread over it."""

    values: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None = None
    """None where 0 stands for 0."""


def digest(numbers: np.ndarray) -> str:
    """What a weight's numbers are known by."""
    described = f"{numbers.dtype} {numbers.shape} ".encode()
    return hashlib.sha256(described + np.ascontiguousarray(numbers).tobytes()).hexdigest()


def integers_of(weight: np.ndarray, bits: int, group: int | None) -> Integers:
    """A weight [inputs, outputs] in integers.

    Args:
        weight: finite numbers.
        bits: 4 or 8.
        group: inputs that share a scale; None for all of them.
    """
    inputs, outputs = weight.shape
    size = min(group or inputs, inputs)
    count = -(-inputs // size)
    padded = np.zeros((count * size, outputs), np.float32)
    padded[:inputs] = weight
    grouped = padded.reshape(count, size, outputs).astype(np.float64)
    scales = _scales_of_8_bits(grouped) if bits == 8 else _scales_of_4_bits(grouped)
    values = _rounded(grouped, scales, bits).reshape(count * size, outputs)[:inputs].astype(np.int8)
    return Integers(values if bits == 8 else _packed(values), scales, size)


def grouped_integers(
    integers: np.ndarray, zeros: np.ndarray, scales: np.ndarray, group: int, least_bits: int
) -> Integers | None:
    """Integers [inputs, outputs] in as few bits as they need; None where they need more than 8.

    Args:
        zeros: [groups, outputs], what stands for 0.
        scales: likewise.
        group: inputs that share a row of both.
        least_bits: 4, or 8 for integers of 8 bits in any case.
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
        held = values.astype(np.int8)
        return Integers(
            held if bits == 8 else _packed(held),
            np.ascontiguousarray(scales, np.float32),
            group,
            None if shift is None else np.ascontiguousarray(zeros - shift, np.int8),
        )
    return None


def _rounded(grouped: np.ndarray, scales: np.ndarray, bits: int) -> np.ndarray:
    low = -(2 ** (bits - 1)) + (1 if bits == 8 else 0)
    return np.clip(np.rint(grouped / scales[:, None, :]), low, 2 ** (bits - 1) - 1)


def _normal(scales: np.ndarray) -> np.ndarray:
    """As float32, none of which is 0 or below the normal numbers."""
    signs = np.where(scales < 0, -1.0, 1.0)
    return np.asarray(np.where(scales == 0, 1.0, signs * np.clip(np.abs(scales), 2.0**-100, 2.0**100)), np.float32)


def _scales_of_8_bits(grouped: np.ndarray) -> np.ndarray:
    return _normal(np.abs(grouped).max(axis=1) / 127)


def _scales_of_4_bits(grouped: np.ndarray) -> np.ndarray:
    """That with the least squared error of a few: -8, the largest integer, stands for the number furthest from 0, or for a share of it."""
    below, above = grouped.min(axis=1), grouped.max(axis=1)
    furthest = np.where(-below >= above, below, above)
    best, least = _normal(furthest / -MIDDLE), np.full(furthest.shape, np.inf)
    for share in SHARES:
        scales = _normal(furthest * share / -MIDDLE)
        off = _rounded(grouped, scales, 4) * scales[:, None, :] - grouped
        # Summed up in one order everywhere, so that the choice is the same on all machines.
        error = np.zeros(furthest.shape)
        for place in range(grouped.shape[1]):
            error += off[:, place] * off[:, place]
        best, least = np.where(error < least, scales, best), np.minimum(error, least)
    return best


def _packed(values: np.ndarray) -> np.ndarray:
    inputs, outputs = values.shape
    filled = np.zeros((-(-inputs // BLOCK) * BLOCK, outputs), np.int8)
    filled[:inputs] = values
    blocks = (filled + MIDDLE).astype(np.uint8).reshape(-1, 2, HALF_BLOCK, outputs)
    return np.ascontiguousarray(blocks[:, 0] | (blocks[:, 1] << 4))
