"""Turn vectorised loops that GPU code generators get wrong into scalar code."""

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name

tirx = tvm.tirx


def unroll_loops(func: Any, is_wrong: Callable[[Any], bool]) -> Any:
    """Unroll the vectorised loops for which ``is_wrong`` holds; unchanged if there is none."""

    def scalar(loop: Any) -> Any:
        if loop.kind != tirx.ForKind.VECTORIZED or not is_wrong(loop):
            return loop
        return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.UNROLLED, loop.body)

    body = tvm_ffi.structural_map(func.body, (tirx.For, scalar))
    return func if body.same_as(func.body) else func.with_body(body)


def is_boolean(typed: Any) -> bool:
    """Whether a type or a buffer is boolean."""
    return dtype_name(typed).startswith("bool")
