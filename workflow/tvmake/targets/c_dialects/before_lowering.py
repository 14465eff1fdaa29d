"""What code generators for GPUs get wrong is rewritten before TVM lowers it."""

from collections.abc import Sequence
from typing import Any

import tvm

from tvmake.targets.affected import is_affected
from tvmake.targets.bfloat16 import RoundToBfloat16
from tvmake.targets.c_dialects.gathered_bytes import GatheredBytes
from tvmake.targets.c_dialects.narrow_integers import NarrowIntegers

tirx = tvm.tirx

NARROW_TYPES = (NarrowIntegers(), GatheredBytes(), RoundToBfloat16())
"""Passes for integers of 8 and 16 bits, and bfloat16, in C's dialects."""


def register_before_lowering(name: str, unrolling: Any, releases: str, lowered: Sequence[Any] = ()) -> str:
    """Make TVM's pipeline with a pass, and those for narrow types, before it known to TVM; the name to ask for it.

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
        before = tvm.transform.Sequential([*NARROW_TYPES, unrolling, lowering])
        return before, host, lambda: tvm.transform.Sequential([*lowered, device()])

    tirx.compilation_pipeline.register_tir_pipeline(name, pipeline)
    return name
