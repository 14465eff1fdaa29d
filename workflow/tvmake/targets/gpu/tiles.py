"""Choose the tiles of a matmul on a GPU by their estimated time.

A work group computes a tile of results, each thread a small part of it in registers. Operands pass through shared
memory, one slice of the sum at a time. If there are too few tiles to fill the GPU, the threads of a work group also
share the sum: groups of threads sum separate slices, and their results are added at the end. (Goto and van de Geijn,
"Anatomy of high-performance matrix multiplication", 2008; Kerr et al., "CUTLASS: fast linear algebra in CUDA C++",
2017: sliced-K.)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tvmake.targets.gpu.machine import BYTES_PER_CYCLE, LANES, LATENCY, RESIDENT_THREADS, Gpu

RESIDENT_SHARED = 160 << 10
"""Bytes of shared memory of a core, shared by its work groups."""

ENOUGH_THREADS = 64
"""Minimum threads of a work group: two NVIDIA warps, one Adreno wave."""

START = 2500.0
"""Cycles to start a work group and to write its results."""


@dataclass(frozen=True)
class Tile:
    """The tiling of a matmul."""

    rows: int
    """Rows of results of a work group."""
    columns: int
    thread_rows: int
    """Rows of results of a thread."""
    thread_columns: int
    slices: int
    """Groups of threads that share a sum."""
    depth: int
    """Products that each of these groups adds between two barriers."""

    @property
    def threads(self) -> int:
        """Threads of a work group."""
        return self.slices * self.rows // self.thread_rows * self.columns // self.thread_columns

    @property
    def step(self) -> int:
        """Products that a work group adds between two barriers."""
        return self.slices * self.depth

    def shared_bytes(self, operand: int, result: int) -> int:
        """Shared memory in bytes, for the given bytes per operand and result."""
        operands = (self.rows + self.columns + 8) * self.step * operand
        return operands + (self.slices * self.rows * self.columns * result if self.slices > 1 else 0)


def best_tile(gpu: Gpu, batch: int, rows: int, columns: int, length: int, operand: int, result: int) -> Tile | None:
    """The tile with the shortest estimated time; None if no tile fits the GPU's limits.

    Args:
        batch: number of matmuls.
        rows: of results.
        columns: of results, contiguous in memory.
        length: of the sum.
        operand: bytes per operand value.
        result: bytes per result.
    """
    tiles = _tiles(gpu, operand, result)
    return min(tiles, key=_rank(gpu, batch, rows, columns, length, operand, result), default=None)


def best_tiles(gpu: Gpu, batch: int, rows: int, columns: int, length: int, operand: int, result: int) -> list[Tile]:
    """All tiles within the GPU's limits, by estimated time, the shortest first; for the arguments see :func:`best_tile`."""
    return sorted(_tiles(gpu, operand, result), key=_rank(gpu, batch, rows, columns, length, operand, result))


def _rank(gpu: Gpu, *size: int) -> Callable[[Tile], tuple[float, int]]:
    return lambda tile: (estimated_cycles(gpu, tile, *size), tile.threads)


@cache
def _tiles(gpu: Gpu, operand: int, result: int) -> tuple[Tile, ...]:
    tiles = []
    for height, width in ((4, 4), (8, 4), (2, 4), (8, 8)):
        for rows in (8, 16, 32, 64, 128):
            for columns in (8, 16, 32, 64, 128):
                for slices in (1, 2, 4, 8, 16):
                    for depth in (8, 16, 32):
                        tile = Tile(rows, columns, height, width, slices, depth)
                        if _is_feasible(tile, gpu, operand, result):
                            tiles.append(tile)
    return tuple(tiles)


def _is_feasible(tile: Tile, gpu: Gpu, operand: int, result: int) -> bool:
    if tile.rows % tile.thread_rows or tile.columns % tile.thread_columns:
        return False
    if not min(ENOUGH_THREADS, gpu.threads) <= tile.threads <= gpu.threads:
        return False
    # Every thread takes part in the sum of the slices, and in the transfers.
    if tile.slices > 1 and tile.rows * tile.columns % tile.threads:
        return False
    return tile.shared_bytes(operand, result) <= gpu.shared_bytes


def estimated_cycles(
    gpu: Gpu, tile: Tile, batch: int, rows: int, columns: int, length: int, operand: int, result: int
) -> float:
    """Estimated cycles of a matmul; for the arguments see :func:`best_tile`."""
    groups = batch * -(-rows // tile.rows) * -(-columns // tile.columns)
    steps = -(-length // tile.step)
    most = max(1, min(RESIDENT_THREADS // tile.threads, RESIDENT_SHARED // tile.shared_bytes(operand, result)))
    resident = min(most, -(-groups // gpu.cores))
    turns = math.ceil(groups / (gpu.cores * resident))
    per_thread = tile.thread_rows * tile.thread_columns
    loads = (tile.thread_rows + tile.thread_columns) / 8 * 4
    # A warp's products, and its loads from shared memory for them.
    warps = -(-tile.threads // 32)
    products = warps * tile.depth * max(per_thread * 32 / LANES, loads)
    transfer = (tile.rows + tile.columns) * tile.step * operand / BYTES_PER_CYCLE
    step = max(resident * max(products, transfer), LATENCY + products)
    return turns * (steps * step + START + 8 * tile.slices * per_thread)
