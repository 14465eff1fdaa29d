"""The passes that rewrite wrongly generated code before TVM lowers it."""

from collections.abc import Sequence

from tvmake.targets.affected import is_affected
from tvmake.targets.c_dialects.gathered_bytes import GatheredBytes
from tvmake.targets.c_dialects.narrow_integers import NarrowIntegers
from tvmake.targets.kernel_pipeline import KernelPipeline
from tvmake.targets.numbers.bfloat16 import RoundToBfloat16
from tvmake.targets.numbers.extreme_infinities import ExtremeInfinities
from tvmake.targets.passes import Pass

BEFORE = (NarrowIntegers(), GatheredBytes(), RoundToBfloat16(), ExtremeInfinities())
"""Passes for every dialect: for integers of 8 and 16 bits, for bfloat16, and for extrema."""


def lower_dialect(name: str, unrolling: Pass, releases: str, device: Sequence[Pass] = ()) -> KernelPipeline:
    """The pipeline for a dialect of C.

    Args:
        name: of the pipeline.
        unrolling: the pass for the dialect's boolean vectors.
        releases: releases of TVM that need it; other releases use TVM's own pipeline.
        device: passes for the device's functions when they are lowered.
    """
    return KernelPipeline(name, [*BEFORE, unrolling], (), device) if is_affected(releases) else KernelPipeline()
