"""Design spaces of kernels that write textures.

A texel has four channels and is written at once, by one thread (``target.adreno.texture_store``). MetaSchedule splits the
channels of a texel over threads like any other axis, so that four of five candidates have no code. Here that axis stays
whole in the innermost loop of every candidate.
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
    """Return a design space whose candidates write whole texels; unchanged if it already does."""
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
    """Return the instruction that splits the lanes: the last of the tiles with as many parts as the first."""
    tiles = [number for number, (kind, *_) in enumerate(instructions) if kind == TILE]
    parts = [len(instructions[number][3]) for number in tiles]
    spatial = [number for number, count in zip(tiles, parts, strict=True) if count == parts[0]]
    return spatial[-1] if spatial else None


def _with_literals(instruction: Any, names: list[str]) -> Any:
    """Replace the tile's results in an instruction by numbers."""
    kind, inputs, attributes, outputs = instruction
    values = dict.fromkeys(names, 1) | {names[-1]: LANES}
    if kind == SPLIT:
        inputs = [values.get(value, value) if isinstance(value, str) else value for value in inputs]
    return [kind, inputs, attributes, outputs]
