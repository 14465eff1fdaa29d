"""Read and write booleans lane by lane in CUDA kernels.

Repair: `cuda-vector-booleans`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.c_dialects.vector_loops import is_boolean, unroll_loops

tirx = tvm.tirx

RELEASES = "<0.28"


@tirx.transform.prim_func_pass(opt_level=0, name="StoredBooleans")
class StoredBooleans:
    """Unroll vectorised loops over booleans in memory."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such loops unrolled; otherwise unchanged."""
        return unroll_loops(func, _accesses_booleans)


def _accesses_booleans(loop: Any) -> bool:
    accessed: list[Any] = []
    stores = (tirx.BufferStore, lambda store: accessed.append(store.buffer))
    loads = (tvm.ir.expr.TensorLoad, lambda load: accessed.append(load.source))
    tvm_ffi.structural_walk(loop.body, [stores, loads])
    return any(map(is_boolean, accessed))
