"""Schedule reductions in tiles of results that are kept in registers."""

import math
from collections.abc import Sequence
from typing import Any

import tvm

from tvmake.ir.dimensions import estimate_extent, is_known
from tvmake.targets.cpu.schedules.accesses import (  # fmt: skip
    SPATIAL,
    Contraction,
    contraction,
    extent,
    fuse_outer,
    innermost,
    is_contiguous,
    is_dynamic,
    is_injective,
    loads_in,
    neighbours,
    size,
    stride_bytes,
    uses,
)
from tvmake.targets.cpu.schedules.machine import Machine
from tvmake.targets.cpu.schedules.packing import can_pack, pack
from tvmake.targets.cpu.schedules.tiles import Rows, Tile, divisors, good_tiles
from tvmake.targets.cpu.schedules.vectors import vectorize
from tvmake.targets.cpu.vectors.incomplete_vectors import BEYOND, VALID
from tvmake.targets.cpu.vectors.partial_tiles import LANES, RESULTS, ROWS, SINGLE, SUMS, TILE

WORK_OF_A_THREAD = 1 << 16
"""Steps of a reduction below which one thread computes it: waking the others would take about as long."""

FEWEST_TILES = 4
"""Minimum number of tiles of a kernel that is worth as many threads; a single tile may be fastest on one core only."""

ENOUGH_ROWS = 7
"""Extent of a static axis from which a tile takes its rows there, and not from a dynamic axis."""

MOST_DYNAMIC_ROWS = 8
"""Maximum rows of a tile along a dynamic axis of feature maps, which are often that narrow."""

FEWEST_LANES = 4
"""Minimum lanes of a tile of a grouped convolution."""

FEWEST_STEPS = 8
"""Length of a sum below which padding an operand other than weights costs more than it gains."""

UNROLLED_STEPS = 25
"""Kernel windows up to this size are unrolled, so that neighbouring results share loaded values."""

UNROLLED_PRODUCTS = 512
"""Maximum number of unrolled vector operations."""

HALVES = 2
"""Weights in a byte; the loop over them is unrolled, so that constants select each."""

MOST_PARTS = 8
"""Maximum number of parts into which rows are divided before columns are: about the number of a processor's threads."""

STREAMS = 4
"""Parts of a sum that are added alternately, if one row reads each weight once. A core of an AMD EPYC (Zen 3) reads 16 GB/s from memory
in one sequence of addresses, and 30 GB/s in four."""

STREAM_BYTES = 1 << 13
"""Minimum length of such a sequence: two pages, at whose ends processors stop to prefetch."""

BAND = 8
"""Maximum rows of results for which padding is computed at once, so that it stays in the cache."""


class TiledReduction:
    """A reduction whose results are adjacent along an axis that can be vectorised."""

    has_whole_tiles = False
    """Whether the last tile must be complete."""

    def __init__(
        self,
        schedule: Any,
        block: Any,
        machine: Machine,
        weights: Sequence[Any],
        choice: int = 0,
        width: int | None = None,
    ):
        """
        Args:
            weights: buffers that may be reordered when the package is built.
            choice: rank of the tile among the good ones; the last one if there are fewer.
            width: number of adjacent results of a tile, if weights have a layout already.
        """
        self.schedule, self.block, self.machine = schedule, block, machine
        self.statement = schedule.get(block)
        self.spatial = [axis for axis in self.statement.iter_vars if axis.iter_type == SPATIAL]
        self.reduced = [axis for axis in self.statement.iter_vars if axis.iter_type != SPATIAL]
        self.contraction: Contraction | None = contraction(self.statement)
        self.loads = [
            load for load in loads_in(self.statement.body.value) if not load.source.same_as(self.statement.body.buffer)
        ]
        self.lane_axis: Any = innermost(self.statement.body.indices, self.spatial)
        self.weights = weights
        self.columns = self._columns()
        self.tile = self._tile(choice, width if any(map(self._is_weight, self.along_lanes)) else None)

    @staticmethod
    def suits(schedule: Any, block: Any) -> bool:
        """Whether a block is such a reduction: its operands are contiguous, or can be reordered."""
        statement = schedule.get(block)
        if is_injective(statement) or not hasattr(statement.body, "indices"):
            return False
        if len(schedule.get_loops(block)) != len(statement.iter_vars):
            return False
        axis = innermost(statement.body.indices, [axis for axis in statement.iter_vars if axis.iter_type == SPATIAL])
        if axis is None or extent(axis) == 1:
            return False
        loads = [load for load in loads_in(statement.body.value) if not load.source.same_as(statement.body.buffer)]
        if is_dynamic(axis):
            vectors = [load for load in loads if uses(load.indices, axis)]
            return contraction(statement) is not None and len(vectors) == 1 and can_pack(vectors[0], axis)
        if contraction(statement) is not None:
            return True
        return all(is_contiguous(load, axis) for load in loads) and any(uses(load.indices, axis) for load in loads)

    @property
    def along_lanes(self) -> list[Any]:
        """The operands that are read as vectors."""
        return [load for load in self.loads if uses(load.indices, self.lane_axis) and not self._is_of_a_group(load)]

    def _is_of_a_group(self, load: Any) -> bool:
        """Whether a load is the same for all lanes of a tile, because they belong to one group of a convolution."""
        shared = neighbours(load, self.lane_axis)
        return self.columns < extent(self.lane_axis) and shared is not None and shared % self.columns == 0

    def _columns(self) -> int:
        """Maximum lanes of a tile; for a grouped convolution those of one group, if that is enough for vectors."""
        if is_dynamic(self.lane_axis):
            return self.machine.lanes(self.machine.bits(self.statement.body.buffer))
        shared = [shared_lanes for load in self.loads if (shared_lanes := neighbours(load, self.lane_axis))]
        group = math.gcd(extent(self.lane_axis), *shared)
        return group if group >= FEWEST_LANES else extent(self.lane_axis)

    def _tile(self, choice: int, width: int | None) -> Tile:
        vectors = self.along_lanes
        rows = [
            Rows(
                index,
                extent(axis),
                not all(uses(load.indices, axis) for load in vectors),
                self._tallest(axis),
                [
                    stride
                    for load in self.loads
                    if not any(load is vector for vector in vectors) and (stride := stride_bytes(load, axis))
                ],
            )
            for index, axis in enumerate(self.spatial)
            if not axis.var.same_as(self.lane_axis.var) and extent(axis) > 1
        ]
        fixed = [axis for axis in rows if not axis.is_dynamic]
        dynamic = [axis for axis in rows if axis.is_dynamic]
        if any(axis.extent >= ENOUGH_ROWS and axis.shares for axis in fixed):
            rows = fixed
        elif len(dynamic) > 1:
            # Estimates of dynamic extents are equal, but a batch, which comes first, is often 1.
            sharing = [axis for axis in dynamic if axis.shares] or dynamic
            rows = [axis for axis in rows if not axis.is_dynamic or axis is sharing[-1]]
        bits = self.machine.bits(self.statement.body.buffer)
        tiles = good_tiles(
            self.machine,
            bits,
            self.columns,
            rows,
            self._steps(),
            max(1, len(vectors)),
            whole_only=self.has_whole_tiles,
            pads=not self.has_whole_tiles and self._can_pad(),
            fewest=FEWEST_TILES if self._work() >= FEWEST_TILES * WORK_OF_A_THREAD else 1,
            required=width,
        )
        return tiles[min(choice, len(tiles) - 1)]

    def _tallest(self, axis: Any) -> int | None:
        """Maximum rows of a tile along a dynamic axis; None for a static axis."""
        return MOST_DYNAMIC_ROWS if is_dynamic(axis) else None

    def _can_pad(self) -> bool:
        """Whether tiles may compute additional lanes: their operand is packed, so zeros can be added to it."""
        vectors = self.along_lanes
        return (
            self.contraction is not None
            and not is_dynamic(self.lane_axis)
            and len(self.statement.body.indices) > 1
            and self.columns == extent(self.lane_axis)
            and len(vectors) == 1
            and can_pack(vectors[0], self.lane_axis)
            and (self._is_weight(vectors[0]) or self._steps() >= FEWEST_STEPS)
        )

    def _is_weight(self, load: Any) -> bool:
        return any(load.source.same_as(weight) for weight in self.weights)

    def _work(self) -> int:
        """Steps of all sums."""
        return math.prod(map(extent, self.statement.iter_vars))

    def _steps(self) -> int:
        """Steps of one sum."""
        return math.prod(map(extent, self.reduced))

    def apply(self, epilogue: Any | None, padding: Any | None) -> bool:
        """Schedule the reduction, its epilogue and its padding; returns whether the padding was scheduled.

        Args:
            epilogue: a block that computes one value from each result of the reduction, or None.
            padding: a block that pads the reduction's input and has no other user, or None.
        """
        schedule, tile = self.schedule, self.tile
        self._pack()
        epilogue = epilogue if epilogue is not None else schedule.cache_write(self.block, 0, "global")
        loops = dict(
            zip((str(axis.var.name) for axis in self.statement.iter_vars), schedule.get_loops(self.block), strict=True)
        )
        outer_lanes, vectors, lanes = schedule.split(
            loops[str(self.lane_axis.var.name)], [None, tile.vectors, tile.lanes]
        )
        others, inner = self._rows(loops)
        bands: list[Any] = []
        if padding is not None and len(self.along_lanes) == len(self.loads):
            bands, others = self._bands(others)
        parts, others = self._parts(others) if not bands else ([], others)
        sums, products = self._sums(loops)
        outer = [*bands, *parts, outer_lanes, *others]
        tile_loops = [*sums, *inner, vectors, lanes, *products]
        schedule.reorder(*outer, *tile_loops)
        schedule.reverse_compute_at(epilogue, outer[-1], preserve_unit_loops=True)
        parallel = fuse_outer(schedule, [*bands, outer_lanes] if bands else outer)
        outside = len(schedule.get_loops(self.block)) - len(tile_loops)
        self._store_by_tiles()
        if self._work() >= WORK_OF_A_THREAD:
            schedule.parallel(parallel)
        if bands:
            schedule.compute_at(
                padding, schedule.get_loops(self.block)[outside - len(others) - 1], preserve_unit_loops=True
            )
            fused = schedule.get_loops(padding)
            vectorize(schedule, fused[-1], self.machine, self.statement.body.buffer)
        if tile.lacking and tile.width > self.columns:
            # One tile has all columns, and the rows of its results have room for the additional ones.
            schedule.storage_align(self.block, 0, len(schedule.get(self.block).body.indices) - 2, tile.width, 0)
        if self._dynamic_rows() is not None:
            around = schedule.get_loops(self.block)[outside - 1]
            schedule.annotate(around, TILE, ann_val=self._lower_height())
        self._finish_sum(len(inner) + 2)
        self._finish_epilogue(epilogue, outside)
        return bool(bands)

    def _dynamic_rows(self) -> Any | None:
        """The dynamic axis of a tile's rows."""
        rows = self.tile.rows
        axis = self.spatial[rows.index] if rows and self.tile.height > 1 else None
        return axis if axis is not None and is_dynamic(axis) else None

    def _lower_height(self) -> int:
        """The second tile height that a kernel has code for: half of the height for kernel windows, else a third."""
        parts = 2 if self._is_windowed(self._dynamic_rows()) else 3
        return -(-self.tile.height // parts)

    def _store_by_tiles(self) -> None:
        """Give a tile with a dynamic axis a buffer of fixed size: TVM would allocate the whole dynamic dimension."""
        axes = [(self._dynamic_rows(), self.tile.height), (self.lane_axis, self.tile.width)]
        indices = list(self.statement.body.indices)
        sizes = {
            position: size
            for axis, size in axes
            if axis is not None and is_dynamic(axis)
            for position, index in enumerate(indices)
            if index.same_as(axis.var)
        }
        if not sizes:
            return
        (lane,) = [position for position, index in enumerate(indices) if index.same_as(self.lane_axis.var)]

        def divide(*positions: Any) -> list[Any]:
            tiles = [
                position // sizes[number] if number in sizes else position
                for number, position in enumerate(positions)
                if number != lane or number in sizes
            ]
            rows = [positions[number] % size for number, size in sorted(sizes.items()) if number != lane]
            return [*tiles, *rows, positions[lane] % sizes[lane] if lane in sizes else positions[lane]]

        layout = tvm.tirx.IndexMap.from_func(divide, ndim=len(indices), index_dtype=str(indices[lane].ty.dtype))
        # Not padded: rows and lanes beyond the last ones are computed, but never read.
        self.schedule.transform_layout(self.block, ("write", 0), layout, assume_injective_transform=True)

    def _pack(self) -> None:
        """Reorder operands to the order in which they are read."""
        if len({load.source for load in self.loads}) < len(self.loads):
            return
        # Other sums may have weights, too: integers, several of which share a scale.
        contracted = self.contraction or Contraction(self.statement, tuple(self.loads))
        for load in self.along_lanes:
            is_weight = self._is_weight(load)
            if self.contraction or is_weight:
                pack(self.schedule, self.block, contracted, load, self.tile.width, is_weight)

    def _sums(self, loops: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """Loops over the steps of the sum, and over the products that one step adds to each lane."""
        sums = [loops[str(axis.var.name)] for axis in self._reduction_axes()]
        if self._streams() > 1:
            part, step = self.schedule.split(sums[0], [self._streams(), None])
            sums = [step, *sums[1:], part]
        return sums, []

    def _streams(self) -> int:
        """The number of parts of the sum that are added alternately."""
        vectors = self.along_lanes
        if (
            self.tile.height > 1
            or any(map(is_dynamic, self.reduced))
            or len(vectors) != 1
            or not self._is_weight(vectors[0])
        ):
            return 1
        has_rows = any(extent(axis) > 1 for axis in self._row_axes())
        first = extent(self._reduction_axes()[0])
        stream_bytes = self._steps() // STREAMS * self.tile.width * self.machine.bits(vectors[0].source) // 8
        return 1 if has_rows or first % STREAMS or stream_bytes < STREAM_BYTES else STREAMS

    def _rows(self, loops: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """Loops over tiles, and within a tile."""
        others, inner = [], []
        for index, axis in enumerate(self.spatial):
            if axis.var.same_as(self.lane_axis.var):
                continue
            loop = loops[str(axis.var.name)]
            if self.tile.rows and self.tile.rows.index == index and self.tile.height > 1:
                # TVM does not tensorize a block with a condition.
                loop, within = self.schedule.split(
                    loop, [None, self.tile.height], disable_predication=self.has_whole_tiles and is_dynamic(axis)
                )
                inner.append(within)
            others.append(loop)
        return others, inner

    def _parts(self, others: list[Any]) -> tuple[list[Any], list[Any]]:
        """Split the first row axis into parts, if the operands shared by all rows are not larger than the others.

        Each thread then has separate rows, as in the kernels before and after, and finds them in its own cache. It
        reads the shared operands, such as weights, once for each part.
        """
        shared = sum(size(load.source) for load in self.along_lanes)
        own = sum(size(load.source) for load in self.loads) - shared + size(self.statement.body.buffer)
        if self.contraction is None or shared > own:
            return [], others
        if any(not is_known(self.schedule.get(loop).extent) for loop in others):
            return self._rows_first(others)
        position = next((position for position, axis in enumerate(self._row_axes()) if extent(axis) > 1), None)
        if position is None:
            return [], others
        count = max(d for d in divisors(int(self.schedule.get(others[position]).extent)) if d <= MOST_PARTS)
        part, row = self.schedule.split(others[position], [count, None])
        return [*others[:position], part], [row, *others[position + 1 :]]

    def _rows_first(self, others: list[Any]) -> tuple[list[Any], list[Any]]:
        """Loops over a batch with separate operands, or else over dynamic rows, and the other loops."""
        batch: list[Any] = []
        dynamic: list[Any] = []
        fixed: list[Any] = []
        for axis, loop in zip(self._row_axes(), others, strict=True):
            has_own = all(uses(load.indices, axis) for load in self.along_lanes)
            is_fixed = is_known(self.schedule.get(loop).extent)
            (batch if has_own else fixed if is_fixed else dynamic).append(loop)
        return (batch, [*dynamic, *fixed]) if batch else (dynamic[:1], [*dynamic[1:], *fixed])

    def _bands(self, others: list[Any]) -> tuple[list[Any], list[Any]]:
        """Loops over bands of the first axis that kernel windows move along, and within a band, per batch item."""
        for position, (axis, loop) in enumerate(zip(self._row_axes(), others, strict=True)):
            rows = self.schedule.get(loop).extent
            if estimate_extent(rows) > 1 and self._is_windowed(axis):
                height = max(divisor for divisor in divisors(int(rows)) if divisor <= BAND) if is_known(rows) else BAND
                band, row = self.schedule.split(loop, [None, height])
                return [*others[:position], band], [row, *others[position + 1 :]]
        return [], others

    def _row_axes(self) -> list[Any]:
        return [axis for axis in self.spatial if not axis.var.same_as(self.lane_axis.var)]

    def _is_windowed(self, axis: Any) -> bool:
        """Whether an index combines the axis with a reduction axis."""
        return any(
            uses([index], axis) and any(uses([index], reduced) for reduced in self.reduced)
            for load in self.loads
            for index in load.indices
        )

    def _reduction_axes(self) -> list[Any]:
        """The reduction axes in the order of an operand's axes, preferably a packed operand's."""
        names = {str(axis.var.name) for axis in self.reduced}
        for load in (*reversed(self.along_lanes), *self.loads):
            order = [str(index.name) for index in load.indices if hasattr(index, "name")]
            if names <= set(order):
                return sorted(self.reduced, key=lambda axis: order.index(str(axis.var.name)))
        return self.reduced

    def _has_halves(self) -> bool:
        """Whether the innermost reduction loop iterates over values that share a byte."""
        summed = self._reduction_axes()
        return self.contraction is None and len(summed) > 1 and extent(summed[-1]) == HALVES

    def _unrolls(self) -> bool:
        if any(map(is_dynamic, self.reduced)):
            return False
        steps, tile = self._steps(), self.tile
        return bool(steps <= UNROLLED_STEPS and steps * tile.height * tile.vectors <= UNROLLED_PRODUCTS)

    def _finish_sum(self, within: int) -> None:
        """Vectorise the sum and its initialisation; ``within`` of its loops are over a tile's results."""
        streams = int(self._streams() > 1)
        first = self.schedule.get_loops(self.block)[-within - len(self.reduced) - streams]
        self._finish(self.block, within + streams, self._unrolls())
        if self._has_halves() and not self._unrolls():
            self.schedule.unroll(self.schedule.get_loops(self.block)[-within - 1])
        self._finish(self.schedule.decompose_reduction(self.block, first), within, is_unrolled=False)

    def _finish(self, block: Any, within: int, is_unrolled: bool) -> None:
        loops = self.schedule.get_loops(block)
        if int(self.schedule.get(loops[-1]).extent) > 1:
            self.schedule.vectorize(loops[-1])
            if self.tile.lacking or is_dynamic(self.lane_axis):
                self.schedule.annotate(loops[-1], BEYOND, ann_val=True)
        if self._dynamic_rows() is not None:
            self.schedule.annotate(loops[-within], ROWS, ann_val=SUMS)
        first = len(loops) - within - (len(self.reduced) if is_unrolled else 0)
        for loop in loops[first:-1]:
            self.schedule.unroll(loop)

    def _finish_epilogue(self, epilogue: Any, outside: int) -> None:
        """Unroll all loops: a tile that is indexed by a loop variable cannot be in registers."""
        *rows, last = self.schedule.get_loops(epilogue)[outside:]
        if self._dynamic_rows() is not None:
            (loop,) = [loop for loop in rows if int(self.schedule.get(loop).extent) > 1]
            self.schedule.annotate(loop, ROWS, ann_val=RESULTS)
        if self.tile.lacking or int(self.schedule.get(last).extent) % self.tile.lanes == 0:
            vectors, lanes = self.schedule.split(last, [None, self.tile.lanes])
            if self.tile.lanes > 1:
                self.schedule.vectorize(lanes)
            if is_dynamic(self.lane_axis):
                self.schedule.annotate(lanes, LANES, ann_val=SINGLE)
            if self.tile.lacking:
                self.schedule.annotate(vectors, VALID, self.tile.width - self.tile.lacking)
            last = vectors
        for loop in (*rows, last):
            self.schedule.unroll(loop)
