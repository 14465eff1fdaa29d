"""Choose the tile of results that a contraction keeps in registers, by the estimated time of a step of its sum.

A step does one multiply-add per accumulator, and loads the operands: one value for each row of the tile, one vector for
each vector of its columns. A core does about two of either in a cycle, and needs several accumulators to hide the
latency of multiplications. (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008.)
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tvmake.targets.cpu.schedules.machine import Machine

PER_CYCLE = 2.0
"""Loads, and multiplications, that start in a cycle."""

LATENCY = 4.0
"""Latency of a multiplication, in cycles."""

CACHE_BYTES_PER_CYCLE = 32.0
"""Bandwidth of the second-level cache beside computation: half of the maximum on an Intel Xeon and an AMD EPYC."""

CACHE_BYTES = 1 << 19
"""Size of the packed operand that should stay in the second-level cache until it is used again."""

ODD_LANES = 4.0
"""Slowdown for vector lengths other than powers of two: LLVM keeps few of them in registers."""

BEYOND_CACHE = 1.5
"""Slowdown of loads if the packed operand exceeds :data:`CACHE_BYTES`."""

WAIT = 0.9
"""Cycles that a step waits for its loads if it has little else to do."""

WAIT_FOR_CACHE = 0.3
"""Additional wait per cycle of second-level cache transfer. Measured, as :data:`HIDING`, on an Intel Xeon with AVX-512,
where tiles of 4 × 2 vectors reach three quarters of the speed of 12 × 2."""

HIDING = 13.0
"""Cycles of multiplications that hide all waits."""

MEMORY_BYTES = 1 << 21
"""Larger operands exceed the second-level cache: the first rows of tiles wait, later rows find a part of them."""

MEMORY_BYTES_PER_CYCLE = 10.0
"""Bandwidth behind the second-level cache, for one core."""

MOST_ROWS = 16
"""Maximum rows of a matmul tile: each row is a separate stream, and cores prefetch only so many."""

SKIPPED = 0.25
"""Time of a skipped row, relative to a computed one."""

PADDED = 1.1
"""Slowdown of code whose last tile computes additional columns."""

MOST_LACKING = 4
"""The last tile may lack 1 in 4 of its rows: 17 rows are tiles of 6, 6 and 5."""


WAY_BYTES, WAYS = 4096, 8
"""A typical first-level cache: bytes per way, and ways. Of addresses that are ``WAY_BYTES`` apart, it keeps one line per way."""

EVICTED = 1.5
"""Slowdown if rows evict each other's lines: 1.5 to 2 on an AMD EPYC, for 16 rows that are 4 or 8 KiB apart."""


@dataclass(frozen=True)
class Rows:
    """An axis from which a tile can take its rows."""

    index: int
    """Position among the axes of the block."""
    extent: int
    shares: bool
    """Whether all rows use the same vectors."""
    tallest: int | None = None
    """Maximum rows of a tile if the extent is an estimate; else None."""
    stride_bytes: Sequence[int] = ()
    """Distances in memory between the values that adjacent rows read, of each operand without lanes."""

    @property
    def is_dynamic(self) -> bool:
        """Whether the extent is an estimate; tiles then have any height."""
        return self.tallest is not None


@dataclass(frozen=True)
class Tile:
    """Rows and vectors of results."""

    rows: Rows | None
    height: int
    """Number of rows; 1 without an axis of rows."""
    vectors: int
    lanes: int
    lacking: int = 0
    """Adjacent results that the last tile computes from zeros in addition."""

    @property
    def width(self) -> int:
        """Number of adjacent results."""
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
    required: int | None = None,
) -> list[Tile]:
    """Tiles by the estimated time per result, the shortest first.

    Of equally good axes, matmuls take rows from the first one. If the data are read along the lanes (poolings,
    depthwise convolutions), rows come from the last axis: neighbours there share most of the values in their kernel
    windows, from adjacent cache lines. That is 1.1 to 1.2 times as fast on an Intel Xeon and an AMD EPYC.

    Args:
        width: number of adjacent results; tiles take a divisor, unless they are padded.
        length: number of products in a sum.
        vectors_read: operands that are read along the lanes, one or two.
        whole_only: no tile may lack rows.
        pads: the last tile may compute additional adjacent results.
        fewest: desired minimum number of tiles, so that as many threads have work.
        required: number of adjacent results of a tile, for a layout of weights that is known. Without such a tile, all
            tiles are returned.
    """
    are_windows = vectors_read > 1 or not any(axis.shares for axis in rows)
    axes = list(reversed(rows)) if are_windows else rows
    results = width * math.prod(axis.extent for axis in rows)

    def estimate(tile: Tile) -> float:
        count = -(-results // (tile.height * tile.width))
        return _cycles(machine, bits, tile, width, results // width, length, vectors_read) * max(1.0, fewest / count)

    candidates = [
        (estimate(tile), -tile.height * tile.width, position, tile)
        for position, tile in enumerate(_tiles(machine, bits, width, axes, whole_only, pads))
    ]
    ordered = [candidate[-1] for candidate in sorted(candidates, key=lambda candidate: candidate[:3])]
    return [tile for tile in ordered if tile.width == required] or ordered


def _tiles(machine: Machine, bits: int, width: int, rows: Sequence[Rows], whole_only: bool, pads: bool) -> list[Tile]:
    full = machine.lanes(bits)
    most = machine.accumulators
    lengths = [lanes for lanes in (full, full // 2, full // 4) if lanes > 1]
    padded = range(full // 2, full * most, full // 2) if pads and full > 1 else ()
    tiles = []
    for width_taken in sorted({*divisors(width), *padded}):
        lanes = next((lanes for lanes in lengths if width_taken % lanes == 0), width_taken)
        registers = -(-lanes // full) * (width_taken // lanes)
        if registers > most:
            continue
        for axis in (None, *rows):
            highest = min(most // registers, MOST_ROWS if axis and axis.shares else most)
            heights: Iterable[int] = [1]
            if axis:
                heights = range(1, min(axis.tallest or 0, highest) + 1)
                if axis.tallest is None:
                    heights = _heights(axis.extent, highest, whole_only)
            tiles += [
                Tile(axis, height, width_taken // lanes, lanes, _lacking(width, width_taken)) for height in heights
            ]
    return tiles


def _heights(extent: int, highest: int, whole_only: bool) -> list[int]:
    """Heights of tiles that are all complete, or whose last one lacks few rows, which a condition skips."""
    heights = []
    for height in range(1, min(extent, highest) + 1):
        lacking = _lacking(extent, height)
        is_lowest = -(-extent // -(-extent // height)) == height  # of the heights with as many tiles
        if lacking == 0 or (is_lowest and not whole_only and lacking * MOST_LACKING <= height):
            heights.append(height)
    return heights


def _lacking(extent: int, width_taken: int) -> int:
    """The rows or columns that the last tile lacks."""
    return -extent % width_taken


def _cycles(machine: Machine, bits: int, tile: Tile, width: int, rows: int, length: int, vectors_read: int) -> float:
    """Estimated cycles of a step per result, for ``rows`` times ``width`` adjacent results."""
    full = machine.lanes(bits)
    registers = -(-tile.lanes // full) * tile.vectors
    if min(tile.lanes, full) * bits > machine.path_bytes * 8:
        registers *= 2  # each passes the unit in two halves
    shares = tile.rows is not None and tile.rows.shares
    vectors = registers * (1 if shares else tile.height)
    others = tile.height if vectors_read == 1 else registers * tile.height
    products = registers * tile.height
    packed = length * tile.width * bits // 8
    bandwidth = CACHE_BYTES_PER_CYCLE / (BEYOND_CACHE if packed > CACHE_BYTES else 1)
    overlaps = tile.rows is not None and not shares  # kernel windows overlap, in the first-level cache
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
    evicted = EVICTED if tile.rows and any(_evicts(tile.height, stride) for stride in tile.rows.stride_bytes) else 1
    return odd * padded * evicted * (1 + SKIPPED * skipped) * cycles / (tile.height * tile.width)


def _evicts(height: int, stride_bytes: int) -> bool:
    """Whether the lines that the rows of a tile read exceed the ways of the first-level cache."""
    positions = WAY_BYTES // math.gcd(stride_bytes, WAY_BYTES)  # of the rows, as the cache distributes them
    return height > WAYS * positions


def divisors(number: int) -> list[int]:
    """All divisors, the smallest first."""
    small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})
