"""Read and write truth values lane by lane in CUDA kernels.

Repair: `cuda-vector-booleans`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.c_dialects.vector_loops import is_boolean, unrolled

tirx = tvm.tirx

RELEASES = "<0.28"


@tirx.transform.prim_func_pass(opt_level=0, name="StoredBooleans")
class StoredBooleans:
    """Unroll vectorised loops over truth values in memory."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such loops unrolled; one without any as it is."""
        return unrolled(func, _is_over_truth_values)


def _is_over_truth_values(loop: Any) -> bool:
    accessed: list[Any] = []
    stores = (tirx.BufferStore, lambda store: accessed.append(store.buffer))
    loads = (tvm.ir.expr.TensorLoad, lambda load: accessed.append(load.source))
    tvm_ffi.structural_walk(loop.body, [stores, loads])
    return any(map(is_boolean, accessed))
