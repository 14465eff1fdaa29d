"""Loops over rows whose steps are scheduled apart and merged afterwards, run on all cores.

Repair: `merged-parallel-loops`.
"""

from typing import Any

import tvm_ffi

from tvm import tirx  # isort: skip

PARALLEL = "tvmake.parallel"
"""The annotation of such a loop."""


@tirx.transform.prim_func_pass(opt_level=0, name="ParallelRows")
class ParallelRows:
    """Make loops with :data:`PARALLEL` parallel."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such loops parallel; one without any as it is."""
        body = tvm_ffi.structural_map(func.body, (tirx.For, _parallel))
        return func if body.same_as(func.body) else func.with_body(body)


def _parallel(loop: Any) -> Any:
    if PARALLEL not in (loop.annotations or {}):
        return loop
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.PARALLEL, loop.body)
