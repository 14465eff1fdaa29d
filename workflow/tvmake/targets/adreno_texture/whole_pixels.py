"""Default schedule for the remaining kernels that write textures: a thread computes the four lanes of a pixel.

dlight's rules for Adreno cover convolutions, poolings and element-wise kernels. Its general rules give each lane to a
separate thread, and these threads overwrite each other's pixels. Buffers between blocks stay in global memory.
"""

import contextlib
from typing import Any

import tvm

from tvmake.targets.gpu.bound_rule import bind

from tvm.s_tir.dlight import analysis  # isort: skip
from tvm.s_tir.dlight.base import ScheduleRule  # isort: skip

TEXTURE = "texture"

LANES = 4


class WholePixels(ScheduleRule):
    """Bind all loops but a texture's lanes to threads."""

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """A schedule for a kernel that writes textures; None for others."""
        if not isinstance(func, tvm.tirx.PrimFunc):
            return None
        schedule = tvm.s_tir.Schedule(func)
        blocks = schedule.get_child_blocks(analysis.get_root_block(schedule))
        if not any(_writes_texture(schedule, block) for block in blocks):
            return None
        # A reduction reads its partial results, which a texture does not allow.
        for block in blocks:
            if _writes_texture(schedule, block) and analysis.get_sblock_info(schedule, block).is_reduction():
                schedule.cache_write(block, 0, "global")
        for block in schedule.get_child_blocks(analysis.get_root_block(schedule))[:-1]:
            if analysis.get_sblock_info(schedule, block).is_injective() and not _writes_texture(schedule, block):
                _inline(schedule, block)
        threads = int(target.attrs.get("max_num_threads", 256))
        for block in schedule.get_child_blocks(analysis.get_root_block(schedule)):
            is_texture, extent = _writes_texture(schedule, block), _innermost_extent(schedule, block)
            if is_texture and extent > LANES and extent % LANES == 0:
                _bind_channels(schedule, block, threads)
            else:
                bind(schedule, block, threads, lanes=int(is_texture))
        return schedule


class OfWholePixels(ScheduleRule):
    """A rule that passes a kernel on to the next rule if its innermost loop is not the pixel of a texture.

    Repair: `adreno-layouts-in-half`.
    """

    def __init__(self, rule: Any):
        self.rule = rule

    def apply(self, func: Any, target: "tvm.target.Target", tunable: bool) -> Any:
        """The rule's schedule; None if a texture's innermost loop has other than four lanes."""
        schedule = self.rule.apply(func, target, tunable)
        if schedule is None:
            return None
        blocks = schedule.get_child_blocks(analysis.get_root_block(schedule, schedule.func_working_on))
        written = [block for block in blocks if _writes_texture(schedule, block)]
        return schedule if all(_innermost_extent(schedule, block) == LANES for block in written) else None


def _bind_channels(schedule: Any, block: Any, threads: int) -> None:
    """Bind the loops of a block whose innermost loop covers all channels, four for each pixel."""
    *outer, channels = schedule.get_loops(block)
    pixels, lanes = schedule.split(channels, [None, LANES])
    pixel_loop = schedule.fuse(*outer, pixels)
    groups, members = schedule.split(pixel_loop, [None, min(threads, int(schedule.get(pixel_loop).extent))])
    schedule.bind(groups, "blockIdx.x")
    schedule.bind(members, "threadIdx.x")
    schedule.vectorize(lanes)


def _innermost_extent(schedule: Any, block: Any) -> int:
    """The extent of a block's innermost loop."""
    loops = schedule.get_loops(block)
    return int(schedule.get(loops[-1]).extent) if loops else 1


def _inline(schedule: Any, block: Any) -> None:
    # A block that cannot be inlined into its consumer is computed before it.
    with contextlib.suppress(tvm.s_tir.ScheduleError):
        schedule.compute_inline(block)


def _writes_texture(schedule: Any, block: Any) -> bool:
    return any(TEXTURE in str(region.source.scope()) for region in schedule.get(block).writes)
