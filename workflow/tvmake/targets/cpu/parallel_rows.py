"""Run loops over rows on all cores after their separately scheduled steps are merged.

Repair: `merged-parallel-loops`.
"""

from typing import Any

from tvmake.ir.rewriting import map_body

from tvm import tirx  # isort: skip

PARALLEL = "tvmake.parallel"
"""The annotation of a parallel row loop."""


@tirx.transform.prim_func_pass(opt_level=0, name="ParallelRows")
def parallelize_rows(func: Any, _module: Any, _context: Any) -> Any:
    """Make loops with :data:`PARALLEL` parallel."""
    return map_body(func, (tirx.For, _parallelize))


def _parallelize(loop: Any) -> Any:
    if PARALLEL not in (loop.annotations or {}):
        return loop
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.PARALLEL, loop.body)
