"""Compute truth values lane by lane in OpenCL kernels.

OpenCL's comparison of vectors gives -1 for true, where that of scalars gives 1, and its ``select`` goes by the highest bit
of a lane. TVM 0.27's code generator takes them for the same: ``(x > 0).astype("float32")`` gives -1 in a vectorised loop, and
a choice between two values takes the wrong one. Here loops over lanes in which a truth value is chosen by, converted or
stored become scalar code. Remove when
tests/targets/opencl/test_vector_booleans.py::test_tvm_still_takes_true_in_a_vector_for_one fails.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.affected import is_affected
from tvmake.targets.dtypes import dtype_name

tirx = tvm.tirx

RELEASES = "<0.28"

NAME = "tvmake_opencl"


@tirx.transform.prim_func_pass(opt_level=0, name="ScalarBooleans")
class ScalarBooleans:
    """Unroll vectorised loops that do more with truth values than to guard a branch."""

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
    return tvm.transform.Sequential([ScalarBooleans(), lowering]), host, device


def _scalar(loop: Any) -> Any:
    if loop.kind != tirx.ForKind.VECTORIZED or not _uses_truth_values(loop.body):
        return loop
    return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.UNROLLED, loop.body)


def _uses_truth_values(body: Any) -> bool:
    found: list[Any] = []

    def note(typed: Any) -> None:
        if dtype_name(typed).startswith("bool"):
            found.append(typed)

    tvm_ffi.structural_walk(
        body,
        [
            (tirx.Cast, lambda cast: note(cast.value.ty)),
            (tirx.Select, found.append),
            (tirx.BufferStore, lambda store: note(store.buffer)),
            (tvm.ir.expr.TensorLoad, lambda load: note(load.source)),
        ],
    )
    return bool(found)
