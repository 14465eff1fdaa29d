"""Compute truth values lane by lane in OpenCL kernels.

Loops over lanes become scalar code if a boolean is chosen by, converted or stored in them. Repair: `opencl-vector-booleans`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.c_dialects.vector_loops import is_boolean, unrolled

tirx = tvm.tirx

RELEASES = "<0.28"


@tirx.transform.prim_func_pass(opt_level=0, name="ScalarBooleans")
class ScalarBooleans:
    """Unroll vectorised loops that do more with truth values than to guard a branch."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such loops unrolled; one without any as it is."""
        return unrolled(func, _uses_truth_values)


def _uses_truth_values(loop: Any) -> bool:
    found: list[Any] = []

    def note(typed: Any) -> None:
        if is_boolean(typed):
            found.append(typed)

    tvm_ffi.structural_walk(
        loop.body,
        [
            (tirx.Cast, lambda cast: note(cast.value.ty)),
            (tirx.Select, found.append),
            (tirx.BufferStore, lambda store: note(store.buffer)),
            (tvm.ir.expr.TensorLoad, lambda load: note(load.source)),
        ],
    )
    return bool(found)
