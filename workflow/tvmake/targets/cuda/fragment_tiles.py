"""The tiles of a product on tensor cores, by an estimate of how long they take.

The constants were fitted to 1,900 measurements of 42 products and convolutions on an H100, each timed in a CUDA graph: estimates are off by
a factor of 1.21 in the geometric mean, and the tiles that they choose take 1.07 times as long as the best that was measured. Fitted to two
thirds of the kernels, they are off by 1.23 and 1.08 for the others. For products in TF32, of 300 measurements of 22 kernels on an H200,
they are off by 1.21 and 1.11.
"""

import itertools
import math
from dataclasses import dataclass

from tvmake.targets.cuda.fragments import SIDE
from tvmake.targets.gpu.machine import DESKTOP_CORES

WARP = 32
"""Threads that compute a fragment together."""

MOST_FRAGMENTS = 16
"""Of sums that a warp holds."""

MOST_WARPS = 8
"""Of a work group."""

STATIC_SHARED = 48 << 10
"""Bytes of shared memory that a work group has on every NVIDIA GPU, and the most whose size may be part of the code: there results
are where they are not of the operands' type."""

MOST_REGISTERS = 168
"""Of a thread; compilers keep values in memory where they need more than 255."""

CORE_THREADS, CORE_SHARED, CORE_REGISTERS = 2048, 220 << 10, 65536
"""Of a core: threads, bytes of shared memory and registers for all the work groups on it."""

PRODUCT, LOAD, MOVE = 0.25, 4.0, 2.7
"""Cycles of a core for a product of two fragments, to load one, and for a warp to move a vector each."""

MOVED = 4.3
"""Cycles of a warp for the same, when it waits for it."""

VALUE = 0.18
"""What each value of a vector adds to that, as a share of it."""

STRIDED = 3.0
"""How much longer weights take that lie a window apart."""

IN_TWO_PLACES = 6.0
"""How much longer values take where a slice holds several places of a window, so that the place is worked out for each."""

BYTES_PER_CYCLE = 24.0
"""That the last cache delivers to each core in a cycle."""

LATENCY, LATENCY_IN_TF32 = 500.0, 750.0
"""Cycles for a slice of operands to arrive, with the barriers around it. In TF32 fragments are not loaded one product ahead."""

OVERLAP = 3
"""Of the norm that a step's parts are added up in: they overlap, the less the more alike they are."""

RESULT = 54.0
"""Cycles of a thread to write a result."""

START = 1500.0
"""Cycles to launch, in a graph."""


@dataclass(frozen=True)
class FragmentTile:
    """How a product is cut."""

    rows: int
    """Of results, of a work group."""
    columns: int
    row_warps: int
    """Warps one below the other."""
    column_warps: int
    """Warps side by side."""
    depth: int
    """Terms of the sum that are added up between two barriers."""

    @property
    def warps(self) -> int:
        """Of a work group."""
        return self.row_warps * self.column_warps

    @property
    def threads(self) -> int:
        """Of a work group."""
        return self.warps * WARP

    @property
    def own_rows(self) -> int:
        """Fragments of a warp, one below the other."""
        return self.rows // self.row_warps // SIDE

    @property
    def own_columns(self) -> int:
        """Fragments of a warp, side by side."""
        return self.columns // self.column_warps // SIDE


@dataclass(frozen=True)
class FragmentProduct:
    """What is to be cut."""

    batch: int
    rows: int
    columns: int
    length: int
    """Terms of each sum."""
    operand_bytes: int
    result_bytes: int
    is_windowed: bool
    """Whether it is a convolution whose windows have more than one place."""
    run: int
    """Terms of a sum that are at one place of the windows, one after the other; all of them without windows."""
    lanes: tuple[int, int]
    """Values of the operand with the rows, and of the one with the columns, that a thread moves at once."""


def best_tiles(product: FragmentProduct, shared_bytes: int) -> list[FragmentTile]:
    """All tiles that keep to the GPU's shared memory and registers, the one with the shortest estimated time first."""
    found = [
        tile
        for tile in _tiles()
        if _shared_bytes(tile, product) <= shared_bytes
        and _result_bytes(tile, product) <= STATIC_SHARED
        and _registers(tile, product) <= MOST_REGISTERS
    ]
    return sorted(found, key=lambda tile: (cycles(tile, product), tile.threads))


def _tiles() -> list[FragmentTile]:
    sides, warps, depths = (16, 32, 64, 128), (1, 2, 4), (32, 64, 128)
    return [
        tile
        for tile in itertools.starmap(FragmentTile, itertools.product(sides, sides, warps, warps, depths))
        if not tile.rows % (tile.row_warps * SIDE)
        and not tile.columns % (tile.column_warps * SIDE)
        and tile.own_rows * tile.own_columns <= MOST_FRAGMENTS
        and tile.warps <= MOST_WARPS
        # Every thread takes part in every transfer.
        and not min(tile.rows, tile.columns) * tile.depth % tile.threads
    ]


def _shared_bytes(tile: FragmentTile, product: FragmentProduct) -> int:
    """Two slices of the operands, and the results, which take the place of the former where they are of one type."""
    slices = 2 * (tile.rows * (tile.depth + 8) + max(tile.columns * (tile.depth + 8), tile.depth * (tile.columns + 8)))
    operands, results = slices * product.operand_bytes, _result_bytes(tile, product)
    return max(operands, results) if product.operand_bytes == product.result_bytes else operands + results


def _result_bytes(tile: FragmentTile, product: FragmentProduct) -> int:
    return tile.rows * (tile.columns + 8) * product.result_bytes


def _registers(tile: FragmentTile, product: FragmentProduct) -> int:
    """Of a thread, about."""
    sums = 2 * tile.own_rows * tile.own_columns * product.result_bytes
    moved = (tile.rows + tile.columns) * tile.depth * product.operand_bytes // 4 // tile.threads
    return 40 + sums + moved + 8 * (tile.own_rows + tile.own_columns)


def cycles(tile: FragmentTile, product: FragmentProduct) -> float:
    """The estimated time of a product, on a large GPU at 1.75 GHz."""
    groups = product.batch * -(-product.rows // tile.rows) * -(-product.columns // tile.columns)
    steps = -(-product.length // tile.depth)
    fragments, loaded = tile.own_rows * tile.own_columns, tile.own_rows + tile.own_columns
    most = min(
        CORE_THREADS // tile.threads,
        CORE_SHARED // _shared_bytes(tile, product),
        CORE_REGISTERS // (_registers(tile, product) * tile.threads),
    )
    of_a_core = -(-groups // DESKTOP_CORES)
    resident = min(max(most, 1), of_a_core)
    # A step of a work group: products, fragments loaded for them, operands moved by its warps, bytes from the cache.
    slices = tile.depth // SIDE * tile.warps
    moves = _moves(tile, product)
    # The constants are for numbers of two bytes.
    width = product.operand_bytes / 2
    computed = width * max(slices * fragments * PRODUCT, slices * loaded * LOAD, moves * MOVE)
    transferred = (tile.rows + tile.columns) * tile.depth * product.operand_bytes / BYTES_PER_CYCLE
    latency = (LATENCY if width == 1 else LATENCY_IN_TF32) + width * moves / tile.warps * MOVED
    parts = (resident * computed, resident * transferred, latency)
    step = sum(part**OVERLAP for part in parts) ** (1 / OVERLAP)
    written = tile.rows * tile.columns / tile.threads * RESULT
    return START + math.ceil(of_a_core / resident) * (steps * step + written + latency)


def _moves(tile: FragmentTile, product: FragmentProduct) -> float:
    """What the warps of a work group move in a step, in vectors of each."""
    rows, columns = (1 / lanes + VALUE for lanes in product.lanes)
    if product.is_windowed:
        rows *= STRIDED if product.lanes[0] == 1 else 1
        columns *= IN_TWO_PLACES if product.run % tile.depth else 1
    return tile.depth * (tile.rows * rows + tile.columns * columns) / WARP
