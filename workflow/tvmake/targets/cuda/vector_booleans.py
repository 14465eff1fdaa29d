"""Read and write truth values lane by lane in CUDA kernels.

TVM 0.27's code generator has four truth values of a vectorised loop in a ``ushort4``, eight bytes, and writes it over the four bytes that
they take in memory: other values are overwritten, and the address is misaligned. Remove when
tests/targets/cuda/test_vector_booleans.py::test_tvm_still_writes_truth_values_as_words fails.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.affected import is_affected
from tvmake.targets.dtypes import dtype_name

tirx = tvm.tirx

RELEASES = "<0.28"

NAME = "tvmake_cuda"


@tirx.transform.prim_func_pass(opt_level=0, name="StoredBooleans")
class StoredBooleans:
    """Unroll vectorised loops over truth values in memory."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such loops unrolled; one without any as it is."""
        body = tvm_ffi.structural_map(func.body, (tirx.For, _scalar))
        return func if body.same_as(func.body) else func.with_body(body)


def register() -> str:
    """Make TVM's pipeline with this pass before it known to TVM; the name to ask for it."""
    if not is_affected(RELEASES):
        return "default"
    tvm.tirx.compilation_pipeline.register_tir_pipeline(NAME, _pipeline)
    return NAME


def _pipeline() -> tuple[Any, Any, Any]:
    lowering, host, device = tvm.tirx.compilation_pipeline.get_tir_pipeline("default")
    return tvm.transform.Sequential([StoredBooleans(), lowering]), host, device


def _scalar(loop: Any) -> Any:
    if loop.kind != tirx.ForKind.VECTORIZED or not _is_over_truth_values(loop.body):
        return loop
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.UNROLLED, loop.body)


def _is_over_truth_values(body: Any) -> bool:
    found: list[Any] = []

    def note(buffer: Any) -> None:
        if dtype_name(buffer).startswith("bool"):
            found.append(buffer)

    tvm_ffi.structural_walk(
        body,
        [
            (tirx.BufferStore, lambda store: note(store.buffer)),
            (tvm.ir.expr.TensorLoad, lambda load: note(load.source)),
        ],
    )
    return bool(found)
