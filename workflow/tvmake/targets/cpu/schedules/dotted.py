"""Products of small integers, by a CPU's instructions for them: tiles as of other contractions, several products a step."""

import math
from collections.abc import Sequence
from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name
from tvmake.targets.cpu.integers.dots import Dot
from tvmake.targets.cpu.schedules.accesses import REDUCTION, contraction, extent, innermost, uses
from tvmake.targets.cpu.schedules.machine import Machine
from tvmake.targets.cpu.schedules.packing import pack
from tvmake.targets.cpu.schedules.tiled import Tiled
from tvmake.targets.cpu.vectors.partial_tiles import ROWS, SUMS

from tvm.s_tir.dlight import analysis  # isort: skip

INSTRUCTION = "tvmake.instruction"
"""The annotation of a block with what its two innermost loops are to be replaced by."""


class Dotted(Tiled):
    """A contraction of small integers with weights."""

    has_whole_tiles = True  # a condition would be in the way of an instruction

    def __init__(
        self,
        schedule: Any,
        block: Any,
        machine: Machine,
        weights: Sequence[Any],
        found: Sequence[Dot],
        choice: int = 0,
    ):
        """
        Args:
            schedule: of the kernel.
            block: of the contraction in it.
            machine: that it runs on.
            weights: buffers that may be reordered when the package is built.
            found: the CPU's instructions that take the data.
            choice: which of the good tiles to take.
        """
        self.group = found[0].group
        super().__init__(schedule, block, machine, weights, choice)
        self.data, self.weight = self.loads
        self.neighbours = innermost(self.data.indices, self.reduced)
        self.dot = next((dot for dot in found if dot.lanes == self.tile.lanes), None)

    @classmethod
    def of(
        cls, schedule: Any, block: Any, machine: Machine, weights: Sequence[Any], dots: Sequence[Dot], choice: int = 0
    ) -> "Dotted | None":
        """A block as such a contraction; None for others, and where there is no instruction for it."""
        taken = contraction(schedule.get(block))
        if taken is None or not cls.suits(schedule, block) or dtype_name(taken.block.body.buffer.ty) != "int32":
            return None
        data, weight = taken.operands
        found = [dot for dot in dots if dtype_name(data.source.ty) in dot.data]
        if (
            not found
            or dtype_name(weight.source.ty) != "int8"
            or not any(weight.source.same_as(one) for one in weights)
        ):
            return None
        axis = innermost(data.indices, [each for each in taken.block.iter_vars if each.iter_type == REDUCTION])
        if axis is None or extent(axis) % found[0].group:
            return None
        if not all(isinstance(index, tvm.ir.Var) for index in weight.indices) or not uses(weight.indices, axis):
            return None
        tiled = cls(schedule, block, machine, weights, found, choice)
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
        for axis in self._summed():
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


def put_instructions(schedule: Any) -> None:
    """Let the blocks of such contractions be computed by their instructions: the last step of a schedule.

    Repair: `copies-of-tensorized-schedules`.
    """
    for block in schedule.get_child_blocks(analysis.get_root_block(schedule)):
        name = schedule.get(block).annotations.get(INSTRUCTION)
        if name is not None:
            schedule.unannotate(block, INSTRUCTION)
            schedule.tensorize(schedule.get_loops(block)[-2], str(name))
