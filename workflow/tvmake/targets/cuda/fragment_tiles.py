"""Choose the tiles of matmuls on tensor cores by their estimated time.

The constants were fitted to 1,900 measurements of 42 matmuls and convolutions on an H100, each timed in a CUDA graph.
Estimates are off by a factor of 1.21 in the geometric mean, and the chosen tiles take 1.07 times as long as the best
measured ones. When fitted to two thirds of the kernels, the factors are 1.23 and 1.08 for the others. For TF32 matmuls
they are 1.21 and 1.11, over 300 measurements of 22 kernels on an H200.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cache

from tvmake.targets.cuda.fragments import SIDE
from tvmake.targets.gpu.machine import DESKTOP_CORES

WARP = 32
"""Threads that compute a fragment together."""

MOST_FRAGMENTS = 16
"""Maximum fragments of sums in a warp."""

MOST_WARPS = 8
"""Maximum warps of a work group."""

STATIC_SHARED = 48 << 10
"""Bytes of shared memory that a work group has on every NVIDIA GPU, and the maximum for statically sized buffers. These
hold results whose dtype differs from the operands'."""

MOST_REGISTERS = 168
"""Maximum registers of a thread; beyond 255, compilers spill values to memory."""

CORE_THREADS, CORE_SHARED, CORE_REGISTERS = 2048, 220 << 10, 65536
"""Threads, bytes of shared memory, and registers of a core, shared by its work groups."""

PRODUCT, LOAD, MOVE = 0.25, 4.0, 2.7
"""Cycles of a core for a product of two fragments, for loading one, and for a warp to move a vector per thread."""

MOVED = 4.3
"""Cycles of a warp to move such a vector if it waits for it."""

VALUE = 0.18
"""Additional time for each value of a vector, relative to that."""

STRIDED = 3.0
"""Slowdown for weights with a stride of a kernel window."""

IN_TWO_PLACES = 6.0
"""Slowdown if a slice spans several positions of a kernel window, so that each value's position is computed."""

BYTES_PER_CYCLE = 24.0
"""Bandwidth of the last-level cache for each core."""

LATENCY, LATENCY_IN_TF32 = 500.0, 750.0
"""Cycles until a slice of operands arrives, including barriers. TF32 fragments are not loaded one product ahead."""

OVERLAP = 3
"""Exponent of the norm that combines a step's parts: they overlap, less so the more equal they are."""

RESULT = 54.0
"""Cycles of a thread to write a result."""

START = 1500.0
"""Cycles of a launch in a graph."""


@dataclass(frozen=True)
class FragmentTile:
    """The tiling of a matmul."""

    rows: int
    """Rows of results of a work group."""
    columns: int
    row_warps: int
    """Warps along the rows."""
    column_warps: int
    """Warps along the columns."""
    depth: int
    """Terms of the sum between two barriers."""

    @property
    def warps(self) -> int:
        """Warps of a work group."""
        return self.row_warps * self.column_warps

    @property
    def threads(self) -> int:
        """Threads of a work group."""
        return self.warps * WARP

    @property
    def own_rows(self) -> int:
        """Fragments of a warp along the rows."""
        return self.rows // self.row_warps // SIDE

    @property
    def own_columns(self) -> int:
        """Fragments of a warp along the columns."""
        return self.columns // self.column_warps // SIDE


@dataclass(frozen=True)
class FragmentProduct:
    """The matmul to be tiled."""

    batch: int
    rows: int
    columns: int
    length: int
    """Terms of each sum."""
    operand_bytes: int
    result_bytes: int
    is_windowed: bool
    """Whether it is a convolution with a kernel window larger than 1×1."""
    run: int
    """Consecutive terms of a sum at one position of the kernel window; all terms of a matmul."""
    lanes: tuple[int, int]
    """Values that a thread moves at once, of the operand with the rows and of the one with the columns."""


def best_tiles(product: FragmentProduct, shared_bytes: int) -> list[FragmentTile]:
    """All tiles within the GPU's shared memory and registers, by estimated time, the shortest first."""
    tiles = [
        tile
        for tile in _tiles()
        if _shared_bytes(tile, product) <= shared_bytes
        and _result_bytes(tile, product) <= STATIC_SHARED
        and _registers(tile, product) <= MOST_REGISTERS
    ]
    return sorted(tiles, key=lambda tile: (cycles(tile, product), tile.threads))


@cache
def _tiles() -> tuple[FragmentTile, ...]:
    sides, warps, depths = (16, 32, 64, 128), (1, 2, 4), (32, 64, 128)
    return tuple(
        tile
        for tile in itertools.starmap(FragmentTile, itertools.product(sides, sides, warps, warps, depths))
        if not tile.rows % (tile.row_warps * SIDE)
        and not tile.columns % (tile.column_warps * SIDE)
        and tile.own_rows * tile.own_columns <= MOST_FRAGMENTS
        and tile.warps <= MOST_WARPS
        # Every thread takes part in every transfer.
        and not min(tile.rows, tile.columns) * tile.depth % tile.threads
    )


def _shared_bytes(tile: FragmentTile, product: FragmentProduct) -> int:
    """Two slices of the operands, and the results, which overwrite the slices if the dtypes are equal."""
    slices = 2 * (tile.rows * (tile.depth + 8) + max(tile.columns * (tile.depth + 8), tile.depth * (tile.columns + 8)))
    operands, results = slices * product.operand_bytes, _result_bytes(tile, product)
    return max(operands, results) if product.operand_bytes == product.result_bytes else operands + results


def _result_bytes(tile: FragmentTile, product: FragmentProduct) -> int:
    return tile.rows * (tile.columns + 8) * product.result_bytes


def _registers(tile: FragmentTile, product: FragmentProduct) -> int:
    """Estimated registers of a thread."""
    sums = 2 * tile.own_rows * tile.own_columns * product.result_bytes
    moved = (tile.rows + tile.columns) * tile.depth * product.operand_bytes // 4 // tile.threads
    return 40 + sums + moved + 8 * (tile.own_rows + tile.own_columns)


def cycles(tile: FragmentTile, product: FragmentProduct) -> float:
    """The estimated time of a matmul, in cycles of a large GPU at 1.75 GHz."""
    groups = product.batch * -(-product.rows // tile.rows) * -(-product.columns // tile.columns)
    steps = -(-product.length // tile.depth)
    fragments, loaded = tile.own_rows * tile.own_columns, tile.own_rows + tile.own_columns
    most = min(
        CORE_THREADS // tile.threads,
        CORE_SHARED // _shared_bytes(tile, product),
        CORE_REGISTERS // (_registers(tile, product) * tile.threads),
    )
    core_groups = -(-groups // DESKTOP_CORES)
    resident = min(max(most, 1), core_groups)
    # A work group's step: products, their fragment loads, operand transfers by its warps, bytes from the cache.
    slices = tile.depth // SIDE * tile.warps
    moves = _moves(tile, product)
    # The constants are for values of two bytes.
    width = product.operand_bytes / 2
    computed = width * max(slices * fragments * PRODUCT, slices * loaded * LOAD, moves * MOVE)
    transferred = (tile.rows + tile.columns) * tile.depth * product.operand_bytes / BYTES_PER_CYCLE
    latency = (LATENCY if width == 1 else LATENCY_IN_TF32) + width * moves / tile.warps * MOVED
    parts = (resident * computed, resident * transferred, latency)
    step = sum(part**OVERLAP for part in parts) ** (1 / OVERLAP)
    written = tile.rows * tile.columns / tile.threads * RESULT
    return START + math.ceil(core_groups / resident) * (steps * step + written + latency)


def _moves(tile: FragmentTile, product: FragmentProduct) -> float:
    """Transfers of a work group in a step, in vectors per thread of a warp."""
    rows, columns = (1 / lanes + VALUE for lanes in product.lanes)
    if product.is_windowed:
        rows *= STRIDED if product.lanes[0] == 1 else 1
        columns *= IN_TWO_PLACES if product.run % tile.depth else 1
    return tile.depth * (tile.rows * rows + tile.columns * columns) / WARP
