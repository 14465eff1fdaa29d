"""Memory for what a network computes, planned once for all sizes where dynamic dimensions have bounds."""

import math
from collections.abc import Mapping
from typing import Any

import tvm

from tvmake.artifact.signature import Bounds
from tvmake.ir.bounds import with_bounds
from tvmake.ir.expressions import bindings, is_call

MOST_PLANNED_BYTES = 4 << 30
"""Of all storage together. Files state bounds that nobody runs, such as 1,024 sequences of 4,096 tokens."""

ALLOCATION = "memory.alloc_storage"


@tvm.transform.module_pass(opt_level=0, name="PlanMemory")
class PlanMemory:
    """TVM's ``StaticPlanBlockMemory``, by bounds that passes before it may have dropped.

    A dimension with an upper bound is planned at this size: where all have one, storage has constant sizes, and each run
    takes the same. Where that is more than :data:`MOST_PLANNED_BYTES`, each run takes what its own sizes need.
    """

    def __init__(self, bounds: Mapping[str, Bounds]):
        self.bounds = bounds

    def transform_module(self, module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
        """The module with its storage planned."""
        plan = tvm.relax.transform.StaticPlanBlockMemory()
        least = {name: (lower, None) for name, (lower, _) in self.bounds.items()}
        if any(most is not None for _, most in self.bounds.values()):
            try:
                planned = plan(with_bounds(module, self.bounds))
            except ValueError:  # a size that 64 bits do not hold
                return plan(with_bounds(module, least))
            if _constant_bytes(planned["main"]) <= MOST_PLANNED_BYTES:
                return planned
        return plan(with_bounds(module, least))


def _constant_bytes(main: Any) -> int:
    sizes = (binding.value.args[0] for binding in bindings(main) if is_call(binding.value, ALLOCATION))
    return sum(math.prod(map(int, size)) for size in sizes if all(isinstance(part, tvm.tirx.IntImm) for part in size))
