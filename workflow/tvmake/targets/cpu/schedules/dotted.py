"""Schedule contractions of 8-bit integers with dot-product instructions: tiles with several products per step."""

import math
from collections.abc import Sequence
from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name
from tvmake.targets.cpu.integers.dots import Dot
from tvmake.targets.cpu.schedules.accesses import REDUCTION, contraction, extent, innermost, uses
from tvmake.targets.cpu.schedules.machine import Machine
from tvmake.targets.cpu.schedules.packing import pack
from tvmake.targets.cpu.schedules.tiled import TiledReduction
from tvmake.targets.cpu.vectors.partial_tiles import ROWS, SUMS

from tvm.s_tir.dlight import analysis  # isort: skip

INSTRUCTION = "tvmake.instruction"
"""Annotation of a block: the instruction that replaces its two innermost loops."""


class DotTiles(TiledReduction):
    """A contraction of 8-bit integers with weights."""

    has_whole_tiles = True  # an instruction cannot be inside a condition

    def __init__(
        self,
        schedule: Any,
        block: Any,
        machine: Machine,
        weights: Sequence[Any],
        instructions: Sequence[Dot],
        choice: int = 0,
        width: int | None = None,
    ):
        """
        Args:
            weights: buffers that may be reordered when the package is built.
            choice: rank of the tile among the good ones.
            width: number of adjacent results of a tile, if the weights have a layout already.
        """
        self.group = instructions[0].group
        super().__init__(schedule, block, machine, weights, choice, width)
        self.data, self.weight = self.loads
        self.neighbours = innermost(self.data.indices, self.reduced)
        self.dot = next((dot for dot in instructions if dot.lanes == self.tile.lanes), None)

    @classmethod
    def of(
        cls,
        schedule: Any,
        block: Any,
        machine: Machine,
        weights: Sequence[Any],
        dots: Sequence[Dot],
        choice: int = 0,
        width: int | None = None,
    ) -> "DotTiles | None":
        """The block as such a contraction; None for other blocks, or without a suitable instruction."""
        reduction = contraction(schedule.get(block))
        if reduction is None or not cls.suits(schedule, block) or dtype_name(reduction.block.body.buffer.ty) != "int32":
            return None
        data, weight = reduction.operands
        instructions = [dot for dot in dots if dtype_name(data.source.ty) in dot.data]
        if (
            not instructions
            or dtype_name(weight.source.ty) != "int8"
            or not any(weight.source.same_as(buffer) for buffer in weights)
        ):
            return None
        axis = innermost(data.indices, [axis for axis in reduction.block.iter_vars if axis.iter_type == REDUCTION])
        if axis is None or extent(axis) % instructions[0].group:
            return None
        if not all(isinstance(index, tvm.ir.Var) for index in weight.indices) or not uses(weight.indices, axis):
            return None
        tiled = cls(schedule, block, machine, weights, instructions, choice, width)
        is_shared = not any(load.source.same_as(data.source) for load in tiled.along_lanes)
        return tiled if tiled.dot is not None and is_shared else None

    def _steps(self) -> int:
        return math.prod(map(extent, self.reduced)) // self.group

    def _pack(self) -> None:
        assert self.contraction is not None
        pack(
            self.schedule, self.block, self.contraction, self.weight, self.tile.width, True, self.neighbours, self.group
        )  # fmt: skip

    def _sums(self, loops: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        steps, products = [], []
        for axis in self._reduction_axes():
            loop = loops[str(axis.var.name)]
            if self.neighbours is not None and axis.var.same_as(self.neighbours.var):
                loop, within = self.schedule.split(loop, [None, self.group])
                products.append(within)
            steps.append(loop)
        return steps, products

    def _finish_sum(self, within: int) -> None:
        assert self.dot is not None
        inside = within + 1
        first = self.schedule.get_loops(self.block)[-inside - len(self.reduced)]
        self._finish(self.schedule.decompose_reduction(self.block, first), within, is_unrolled=False)
        loops = self.schedule.get_loops(self.block)
        if self._dynamic_rows() is not None:
            self.schedule.annotate(loops[-inside], ROWS, ann_val=SUMS)
        unrolled = inside + (len(self.reduced) if self._unrolls() else 0)
        for loop in loops[-unrolled:-2]:
            self.schedule.unroll(loop)
        self.schedule.annotate(self.block, INSTRUCTION, self.dot.intrinsic(dtype_name(self.data.source.ty)))


def tensorize_dots(schedule: Any) -> None:
    """Replace blocks of such contractions by their instructions: the last step of a schedule.

    Repair: `copies-of-tensorized-schedules`.
    """
    for block in schedule.get_child_blocks(analysis.get_root_block(schedule)):
        name = schedule.get(block).annotations.get(INSTRUCTION)
        if name is not None:
            schedule.unannotate(block, INSTRUCTION)
            schedule.tensorize(schedule.get_loops(block)[-2], str(name))
