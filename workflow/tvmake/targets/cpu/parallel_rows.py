"""Run loops over rows on all cores after their separately scheduled steps are merged.

Repair: `merged-parallel-loops`.
"""

from typing import Any

import tvm_ffi

from tvm import tirx  # isort: skip

PARALLEL = "tvmake.parallel"
"""The annotation of a parallel row loop."""


@tirx.transform.prim_func_pass(opt_level=0, name="ParallelRows")
class ParallelRows:
    """Make loops with :data:`PARALLEL` parallel."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such loops parallel; otherwise unchanged."""
        body = tvm_ffi.structural_map(func.body, (tirx.For, _parallelize))
        return func if body.same_as(func.body) else func.with_body(body)


def _parallelize(loop: Any) -> Any:
    if PARALLEL not in (loop.annotations or {}):
        return loop
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.PARALLEL, loop.body)
