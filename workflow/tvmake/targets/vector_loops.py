"""What code generators for GPUs get wrong is rewritten before TVM lowers it; vectorised loops become scalar code."""

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.targets.affected import is_affected
from tvmake.targets.narrow_integers import NarrowIntegers

tirx = tvm.tirx


def unrolled(func: Any, is_wrong: Callable[[Any], bool]) -> Any:
    """A function whose vectorised loops over wrong bodies are unrolled; one without any as it is."""

    def scalar(loop: Any) -> Any:
        if loop.kind != tirx.ForKind.VECTORIZED or not is_wrong(loop.body):
            return loop
        return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.UNROLLED, loop.body)

    body = tvm_ffi.structural_map(func.body, (tirx.For, scalar))
    return func if body.same_as(func.body) else func.with_body(body)


def is_boolean(typed: Any) -> bool:
    """Whether a type or a buffer is of truth values."""
    return dtype_name(typed).startswith("bool")


def register_before_lowering(name: str, unrolling: Any, releases: str, lowered: Sequence[Any] = ()) -> str:
    """Make TVM's pipeline with a pass, and that for narrow integers, before it known to TVM; the name to ask for it.

    Args:
        name: of the new pipeline.
        unrolling: the pass.
        releases: of TVM, that need it; with others TVM's own pipeline is named.
        lowered: passes for the device's functions when they are lowered.
    """
    if not is_affected(releases):
        return "default"

    def pipeline() -> tuple[Any, Any, Any]:
        lowering, host, device = tirx.compilation_pipeline.get_tir_pipeline("default")
        before = tvm.transform.Sequential([NarrowIntegers(), unrolling, lowering])
        return before, host, lambda: tvm.transform.Sequential([*lowered, device()])

    tirx.compilation_pipeline.register_tir_pipeline(name, pipeline)
    return name
