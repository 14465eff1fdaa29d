"""Schedule products of few vectors with matrices on GPUs if the results, not the sums, are contiguous in memory.

Language models compute these for each token, with weights of the form [inputs, outputs]. A work group computes some adjacent
results: adjacent threads read adjacent weights, and groups of threads add parts of the sum, whose results are added at the end.
One thread for each result would be too few threads to keep memory busy.
"""

import math
from dataclasses import dataclass
from typing import Any

import tvm

from tvmake.targets.cpu.schedules.accesses import Contraction, bits, contraction, extent, is_dynamic, step, uses
from tvmake.targets.gpu.blocks import read_reduction, single_reduction
from tvmake.targets.gpu.epilogue import inline_consumers, inline_producers, is_unit
from tvmake.targets.gpu.machine import Gpu, gpu
from tvmake.targets.gpu.products import SMALLEST
from tvmake.targets.gpu.ranges.size_ranges import Choice, Parameters
from tvmake.targets.gpu.tiles import ENOUGH_THREADS

from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip

SHORTEST = 64
"""Length of a sum below which single threads are as fast."""

FEWEST_COLUMNS = 32
"""Results below which most threads would have none."""

THREADS = 8
"""Threads along the results; more would leave fewer for the sum."""

LANES, FEWEST_LANES = 4, 2
"""Adjacent results of a thread."""

LANE_BYTES = 8
"""Bytes that a thread loads at once: with :data:`THREADS` of them, a row of 64 bytes."""

GROUPS = 2
"""Work groups per core that are worth narrower loads. On an H200, 1×4096×4096 in float16 takes 14 µs with two and 19 with
one (cuBLAS: 13); rows of 128 or 256 bytes take 20 to 100."""

FURTHER = ((4, 4), (8, 4), (8, 2), (16, 2))
"""Other numbers of threads along the results, and of adjacent results of each, that are worth measuring."""

TERMS = 8
"""Terms of a sum that a thread loads at once."""


class VectorMatrices(ScheduleRule):
    """Kernels with one matmul of few rows whose results are contiguous, and element-wise blocks around it."""

    def __init__(self, shape: tuple[int, int, int] | None = None):
        """
        Args:
            shape: threads along the results, adjacent results of a thread, and threads along the sum; None chooses them.
        """
        self.shape = shape

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule; None for other kernels."""
        match = _match(single_reduction(func, flattens=False))
        if match is None or (self.shape is None and (match.is_dynamic or not match.has_few)):
            return None
        shape = self.shape or match.shape(gpu(target))
        if shape is None:
            return None
        _schedule(match, shape)
        return match.schedule

    def choose(self, func: Any, target: "tvm.target.Target") -> Choice | None:
        """See :class:`~tvmake.targets.gpu.ranges.size_ranges.SizedRule`."""
        match = _match(read_reduction(func), inlines=False)
        shape = match.shape(gpu(target)) if match is not None and match.has_few else None
        if match is None or shape is None:
            return None
        further = [match.with_lanes(gpu(target), threads, lanes) for threads, lanes in FURTHER]
        return Choice(shape, further=lambda: [other for other in further if other is not None and other != shape])

    def with_parameters(self, parameters: Parameters) -> "VectorMatrices":
        """See :class:`~tvmake.targets.gpu.ranges.size_ranges.SizedRule`."""
        threads, lanes, slices = parameters
        return VectorMatrices((threads, lanes, slices))


@dataclass(frozen=True)
class _Match:
    """A suitable kernel."""

    schedule: "tvm.s_tir.Schedule"
    block: Any
    contracted: Contraction
    matrix: int
    """Index of the operand with the columns."""

    @property
    def column(self) -> Any:
        """The axis along which results and the matrix are contiguous."""
        return self.contracted.spatial[-1]

    @property
    def length(self) -> int:
        """Terms of a sum."""
        return math.prod(map(extent, self.contracted.reduced))

    @property
    def is_dynamic(self) -> bool:
        """Whether the kernel has dynamic dimensions."""
        return any(map(is_dynamic, self.contracted.block.iter_vars))

    @property
    def has_few(self) -> bool:
        """Whether the matrix is multiplied by few vectors."""
        matrix = self.contracted.operands[self.matrix].indices
        return math.prod(extent(axis) for axis in self.contracted.spatial if not uses(matrix, axis)) < SMALLEST

    def shape(self, unit: Gpu) -> tuple[int, int, int] | None:
        """As for :class:`VectorMatrices`; None if no number of threads suits the sum."""
        size = bits(self.contracted.operands[self.matrix].source) // 8
        results = math.prod(map(extent, self.contracted.spatial))
        lanes = max(FEWEST_LANES, min(LANES, LANE_BYTES // max(1, size)))
        if results < GROUPS * unit.cores * THREADS * lanes:
            lanes = FEWEST_LANES
        return self.with_lanes(unit, THREADS, lanes)

    def with_lanes(self, unit: Gpu, threads: int, lanes: int) -> tuple[int, int, int] | None:
        """The shape with at most this number of adjacent results, which divides the columns."""
        lanes = math.gcd(extent(self.column), lanes)
        slices = math.gcd(unit.threads // threads, self.length)
        is_suitable = slices % lanes == 0 and slices * threads >= min(ENOUGH_THREADS, unit.threads)
        return (threads, lanes, slices) if is_suitable else None


def _match(match: tuple["tvm.s_tir.Schedule", Any] | None, *, inlines: bool = True) -> _Match | None:
    """A kernel without kernel windows whose results and matrix are contiguous along the columns; None for others."""
    if match is None:
        return None
    schedule, block = match
    if inlines:
        inline_producers(schedule, block)
    contracted = contraction(schedule.get(block))
    if contracted is None or not contracted.spatial or any(map(is_dynamic, contracted.reduced)):
        return None
    column = contracted.spatial[-1]
    if is_dynamic(column) or extent(column) < FEWEST_COLUMNS or math.prod(map(extent, contracted.reduced)) < SHORTEST:
        return None
    using = [number for number, load in enumerate(contracted.operands) if uses(load.indices, column)]
    indices = [index for load in contracted.operands for index in load.indices]
    axes = [axis for axis in contracted.block.iter_vars if not is_unit(axis)]
    if len(using) != 1 or any(sum(uses([index], axis) for axis in axes) > 1 for index in indices):
        return None
    store, matrix = contracted.block.body, contracted.operands[using[0]]
    is_contiguous = all(
        step(access.indices[-1], column) == 1 and not uses(access.indices[:-1], column) for access in (store, matrix)
    )
    return _Match(schedule, block, contracted, using[0]) if is_contiguous else None


def _schedule(match: _Match, shape: tuple[int, int, int]) -> None:
    """Schedule a kernel in place.

    Raises:
        ScheduleError: the blocks around the sum are not element-wise.
    """
    threads, lanes, slices = shape
    schedule, block, count = match.schedule, match.block, len(match.contracted.spatial)
    matrix = match.contracted.operands[match.matrix].source
    loops = schedule.get_loops(block)
    _, along, _ = schedule.split(schedule.fuse(*loops[count:]), [None, slices, math.gcd(TERMS, match.length // slices)])
    partial = schedule.rfactor(along, factor_axis=0)
    written = schedule.cache_write(block, 0, "local")
    *outer, column, parts = schedule.get_loops(block)
    groups, own = schedule.split(column, [None, threads * lanes])
    group = schedule.fuse(*outer, groups)
    schedule.bind(group, "blockIdx.x")
    schedule.compute_at(partial, group, preserve_unit_loops=True)
    # All threads add parts: one for each result along x, and several for its parts along y.
    schedule.bind(own, "threadIdx.x")
    _, part = schedule.split(parts, [None, slices // lanes])
    schedule.bind(part, "threadIdx.y")
    schedule.reverse_compute_at(written, own, preserve_unit_loops=True)
    along, *spatial, columns, steps, terms = schedule.get_loops(partial)[1:]
    part, along = schedule.split(along, [None, lanes])
    columns, neighbours = schedule.split(columns, [None, lanes])
    schedule.reorder(part, along, *spatial, columns, steps, terms, neighbours)
    schedule.bind(part, "threadIdx.y")
    thread = schedule.fuse(along, *spatial, columns)
    schedule.bind(thread, "threadIdx.x")
    shared = schedule.cache_write(partial, 0, "local")
    schedule.set_scope(shared, 0, "shared")
    schedule.reverse_compute_at(shared, thread, preserve_unit_loops=True)
    schedule.vectorize(schedule.get_loops(shared)[-1])
    reads = [region.source for region in schedule.get(partial).reads]
    loaded = schedule.cache_read(partial, next(i for i, read in enumerate(reads) if read.same_as(matrix)), "local")
    schedule.compute_at(loaded, terms, preserve_unit_loops=True)
    schedule.vectorize(schedule.get_loops(loaded)[-1])
    schedule.unroll(terms)
    schedule.unroll(neighbours)
    schedule.decompose_reduction(partial, steps)
    inline_consumers(schedule, written)
