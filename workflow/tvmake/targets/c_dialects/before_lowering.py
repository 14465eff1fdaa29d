"""The passes that rewrite wrongly generated code before TVM lowers it."""

from collections.abc import Sequence

from tvmake.targets.affected import is_affected
from tvmake.targets.c_dialects.narrow_integers import widen_narrow_integers
from tvmake.targets.c_dialects.unroll_vectors import unroll_gathered_bytes
from tvmake.targets.kernel_pipeline import KernelPipeline
from tvmake.targets.numbers.bfloat16 import round_to_bfloat16
from tvmake.targets.numbers.extreme_infinities import start_from_infinities
from tvmake.targets.passes import Pass

BEFORE = (widen_narrow_integers, unroll_gathered_bytes, round_to_bfloat16, start_from_infinities)
"""Passes for every dialect: for integers of 8 and 16 bits, for bfloat16, and for extrema."""


def lower_dialect(name: str, unrolling: Pass, device: Sequence[Pass] = ()) -> KernelPipeline:
    """The pipeline for a dialect of C.

    Args:
        unrolling: the pass for the dialect's boolean vectors.
        device: passes for the device's functions when they are lowered.
    """
    return KernelPipeline(name, [*BEFORE, unrolling], (), device) if is_affected() else KernelPipeline()
