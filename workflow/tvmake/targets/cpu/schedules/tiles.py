"""The tile of results that a contraction keeps in registers, by an estimate of what a step of its sum takes.

A step multiplies and adds one vector for each accumulator, and loads what these need: one value for each row of the tile,
one vector for each vector of its columns. Cores do about two of either in a cycle, and need several accumulators to hide how
long a multiplication takes. (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008.)
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tvmake.targets.cpu.schedules.machine import Machine

PER_CYCLE = 2.0
"""Loads, and multiplications, that begin in a cycle."""

LATENCY = 4.0
"""Cycles from a multiplication's begin to its result."""

CACHE_BYTES_PER_CYCLE = 32.0
"""That the second-level cache delivers beside what cores do: half of what it can at most on an Intel Xeon and an AMD EPYC."""

CACHE_BYTES = 1 << 19
"""What of the packed operand should stay in the second-level cache while it is used again."""

ODD_LANES = 4.0
"""By how much code takes longer for vectors of a length that is no power of two: LLVM keeps few of them in registers."""

BEYOND_CACHE = 1.5
"""By how much loads take longer where it does not."""

WAIT = 0.9
"""Cycles that a step waits for what it loads, where it has little else to do."""

WAIT_FOR_CACHE = 0.3
"""By how much longer for each cycle's worth of bytes from the second-level cache: with :data:`HIDING`, measured on an Intel Xeon with AVX-512, where tiles of
4 × 2 vectors reach three quarters of what those of 12 × 2 do."""

HIDING = 13.0
"""Cycles of multiplications behind which no wait is left."""

MEMORY_BYTES = 1 << 21
"""An operand of more is in no second-level cache: the first rows of tiles wait for it, and leave the others a part of it there."""

MEMORY_BYTES_PER_CYCLE = 10.0
"""That what is behind that cache delivers to one core."""

MOST_ROWS = 16
"""Of a product: each is read from a place of its own, and cores fetch ahead from so many."""

SKIPPED = 0.25
"""What a row that is skipped takes of the time of one that is computed."""

PADDED = 1.1
"""By how much code takes longer, besides, where the last tile computes what there is no place for."""

MOST_LACKING = 4
"""One in so many rows of the last tile may lack: 17 rows are tiles of 6, 6 and 5."""


@dataclass(frozen=True)
class Rows:
    """An axis that rows of a tile can be taken from."""

    index: int
    """Among the axes of the block."""
    extent: int
    shares: bool
    """Whether all rows use the same vectors."""
    tallest: int | None = None
    """Of an axis whose extent is an estimate, the most rows that a tile may have."""

    @property
    def is_dynamic(self) -> bool:
        """Whether the extent is an estimate: tiles have any height then."""
        return self.tallest is not None


@dataclass(frozen=True)
class Tile:
    """Rows and vectors of results."""

    rows: Rows | None
    height: int
    """How many of the axis' rows; 1 where there is none."""
    vectors: int
    lanes: int
    lacking: int = 0
    """Results side by side that the last tile has no place for: it computes them from zeros."""

    @property
    def width(self) -> int:
        """Results side by side."""
        return self.vectors * self.lanes


def good_tiles(
    machine: Machine,
    bits: int,
    width: int,
    rows: Sequence[Rows],
    length: int,
    vectors_read: int,
    whole_only: bool = False,
    pads: bool = False,
    fewest: int = 1,
) -> list[Tile]:
    """Tiles by the estimated time for a result, the shortest first.

    Of axes that are as good, products take their rows from the first. Where the data is read along the lanes (poolings, depthwise
    convolutions), the rows are the last axis': neighbours there share most of what their windows read, from lines of the cache
    that lie side by side. That is 1.1 to 1.2 times as fast on an Intel Xeon and an AMD EPYC.

    Args:
        machine: that it runs on.
        bits: of a result.
        width: results side by side, of which tiles take a divisor, unless they are padded.
        rows: axes for the tile's rows.
        length: how many products a result adds up.
        vectors_read: operands that are read along the lanes, one or two.
        whole_only: no tile may lack rows.
        pads: the last tile may compute more results side by side than there are.
        fewest: how many tiles there should be: so many threads have work then.
    """
    are_windows = vectors_read > 1 or not any(axis.shares for axis in rows)
    axes = list(reversed(rows)) if are_windows else rows
    heights = divisors if whole_only else _heights
    results = width * math.prod(axis.extent for axis in rows)

    def estimate(tile: Tile) -> float:
        count = -(-results // (tile.height * tile.width))
        return _cycles(machine, bits, tile, width, results // width, length, vectors_read) * max(1.0, fewest / count)

    candidates = [
        (estimate(tile), -tile.height * tile.width, position, tile)
        for position, tile in enumerate(_tiles(machine, bits, width, axes, heights, pads))
    ]
    return [candidate[-1] for candidate in sorted(candidates, key=lambda candidate: candidate[:3])]


def _tiles(
    machine: Machine, bits: int, width: int, rows: Sequence[Rows], heights_of: Callable[[int], list[int]], pads: bool
) -> list[Tile]:
    full = machine.lanes(bits)
    most = machine.accumulators
    lengths = [lanes for lanes in (full, full // 2, full // 4) if lanes > 1]
    padded = range(full // 2, full * most, full // 2) if pads and full > 1 else ()
    found = []
    for taken in sorted({*divisors(width), *padded}):
        lanes = next((lanes for lanes in lengths if taken % lanes == 0), taken)
        registers = -(-lanes // full) * (taken // lanes)
        if registers > most:
            continue
        for axis in (None, *rows):
            highest = min(most // registers, MOST_ROWS if axis and axis.shares else most)
            heights: Iterable[int] = [1]
            if axis:
                possible = heights_of(axis.extent) if axis.tallest is None else range(1, axis.tallest + 1)
                heights = [height for height in possible if height <= highest]
            found += [Tile(axis, height, taken // lanes, lanes, _lacking(width, taken)) for height in heights]
    return found


def _heights(extent: int) -> list[int]:
    """Of tiles that are all whole, or of which the last one lacks few rows: those are skipped by a condition."""
    heights = {-(-extent // count) for count in range(1, extent + 1)}
    return sorted(height for height in heights if _lacking(extent, height) * MOST_LACKING <= height)


def _lacking(extent: int, taken: int) -> int:
    """The rows or columns that the last tile lacks."""
    return -extent % taken


def _cycles(machine: Machine, bits: int, tile: Tile, width: int, rows: int, length: int, vectors_read: int) -> float:
    """Estimated cycles for a step of one result, of which there are ``rows`` times ``width`` side by side."""
    full = machine.lanes(bits)
    registers = -(-tile.lanes // full) * tile.vectors
    if min(tile.lanes, full) * bits > machine.path_bytes * 8:
        registers *= 2  # each goes through the unit in two halves
    shares = tile.rows is not None and tile.rows.shares
    vectors = registers * (1 if shares else tile.height)
    others = tile.height if vectors_read == 1 else registers * tile.height
    products = registers * tile.height
    packed = length * tile.width * bits // 8
    bandwidth = CACHE_BYTES_PER_CYCLE / (BEYOND_CACHE if packed > CACHE_BYTES else 1)
    overlaps = tile.rows is not None and not shares  # windows do, in the first-level cache
    far = 0 if overlaps else vectors * machine.path_bytes
    busy, fetched = products / PER_CYCLE, far / bandwidth
    waits = (WAIT + WAIT_FOR_CACHE * fetched) * max(0.0, 1 - busy / HIDING)
    cycles = max((vectors + others) / PER_CYCLE, busy, LATENCY, fetched) + waits
    if not overlaps and length * width * bits // 8 > MEMORY_BYTES:
        passes = -(-rows // tile.height)
        cycles += max(0.0, far / MEMORY_BYTES_PER_CYCLE - cycles) / passes
    odd = ODD_LANES if tile.lanes & (tile.lanes - 1) else 1
    is_fixed = tile.rows is not None and not tile.rows.is_dynamic
    skipped = _lacking(tile.rows.extent, tile.height) / tile.rows.extent if tile.rows and is_fixed else 0
    padded = PADDED * (1 + tile.lacking / width) if tile.lacking else 1
    return odd * padded * (1 + SKIPPED * skipped) * cycles / (tile.height * tile.width)


def divisors(number: int) -> list[int]:
    """All divisors, the smallest first."""
    small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})
