"""Compute booleans lane by lane in OpenCL kernels.

Vectorised loops become scalar code if they select by, convert or store booleans. Repair: `opencl-vector-booleans`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.c_dialects.vector_loops import is_boolean, unroll_loops

tirx = tvm.tirx

RELEASES = "<0.28"


@tirx.transform.prim_func_pass(opt_level=0, name="ScalarBooleans")
class ScalarBooleans:
    """Unroll vectorised loops that use booleans other than to guard a branch."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such loops unrolled; otherwise unchanged."""
        return unroll_loops(func, _uses_booleans)


def _uses_booleans(loop: Any) -> bool:
    uses: list[Any] = []

    def note(typed: Any) -> None:
        if is_boolean(typed):
            uses.append(typed)

    tvm_ffi.structural_walk(
        loop.body,
        [
            (tirx.Cast, lambda cast: note(cast.value.ty)),
            (tirx.Select, uses.append),
            (tirx.BufferStore, lambda store: note(store.buffer)),
            (tvm.ir.expr.TensorLoad, lambda load: note(load.source)),
        ],
    )
    return bool(uses)
