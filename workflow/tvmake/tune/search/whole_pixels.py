"""Design spaces of kernels that write textures.

A pixel of a texture holds four channels and is written at once, by one thread (``target.adreno.texture_store``).
MetaSchedule splits the channels of a pixel over threads as it does any other axis, so that four candidates in five have no
code. Here that axis is left whole in the innermost loop of every candidate.
"""

from typing import Any

import tvm

from tvmake.codegen.kernel_analysis import writes_textures
from tvmake.records.workload import Workload
from tvmake.tune.trace import trace_json

LANES = 4

TILE, SPLIT, LOOPS = "SamplePerfectTile", "Split", "GetLoops"
"""Instructions of a trace."""

SEED = 1


def with_whole_pixels(space: Any, workload: Workload) -> Any:
    """A design space whose candidates write whole pixels; one that needs no change as it is."""
    if not writes_textures(workload.module["main"]):
        return space
    instructions, decisions = trace_json(space.trace)
    tile = _lane_tile(instructions)
    if tile is None:
        return space
    changed = [
        _with_literals(instruction, instructions[tile][3])
        for number, instruction in enumerate(instructions)
        if number != tile
    ]
    moved = [[number - (number > tile), decision] for number, decision in decisions if number != tile]
    schedule = tvm.s_tir.Schedule(workload.module, seed=SEED, debug_mask="none", error_render_level="fast")
    with workload.target:
        tvm.s_tir.Trace.apply_json_to_schedule([changed, moved], schedule)
    return schedule


def _lane_tile(instructions: list[Any]) -> int | None:
    """Which instruction chooses how the lanes are split: of the tiles in as many parts as the first, the last one."""
    tiles = [number for number, (kind, *_) in enumerate(instructions) if kind == TILE]
    parts = [len(instructions[number][3]) for number in tiles]
    spatial = [number for number, count in zip(tiles, parts, strict=True) if count == parts[0]]
    return spatial[-1] if spatial else None


def _with_literals(instruction: Any, names: list[str]) -> Any:
    """An instruction with numbers in place of the tile's results."""
    kind, inputs, attributes, outputs = instruction
    values = dict.fromkeys(names, 1) | {names[-1]: LANES}
    if kind == SPLIT:
        inputs = [values.get(one, one) if isinstance(one, str) else one for one in inputs]
    return [kind, inputs, attributes, outputs]
