"""What code generators for GPUs get wrong is rewritten before TVM lowers it."""

from collections.abc import Sequence
from typing import Any

import tvm

from tvmake.targets.affected import is_affected
from tvmake.targets.c_dialects.gathered_bytes import GatheredBytes
from tvmake.targets.c_dialects.narrow_integers import NarrowIntegers
from tvmake.targets.numbers.bfloat16 import RoundToBfloat16
from tvmake.targets.numbers.extreme_infinities import ExtremeInfinities

tirx = tvm.tirx

BEFORE = (NarrowIntegers(), GatheredBytes(), RoundToBfloat16(), ExtremeInfinities())
"""Passes for every dialect: for integers of 8 and 16 bits, for bfloat16, and for extrema."""


def register_before_lowering(name: str, unrolling: Any, releases: str, lowered: Sequence[Any] = ()) -> str:
    """Make TVM's pipeline with a pass, and those for every dialect, before it known to TVM; the name to ask for it.

    Args:
        name: of the new pipeline.
        unrolling: the pass.
        releases: of TVM, that need it; with others TVM's own pipeline is named.
        lowered: passes for the device's functions when they are lowered.
    """
    if not is_affected(releases):
        return "default"

    def pipeline() -> tuple[Any, Any, Any]:
        lowering, host, device = tirx.compilation_pipeline.get_tir_pipeline("default")
        before = tvm.transform.Sequential([*BEFORE, unrolling, lowering])
        return before, host, lambda: tvm.transform.Sequential([*lowered, device()])

    tirx.compilation_pipeline.register_tir_pipeline(name, pipeline)
    return name
