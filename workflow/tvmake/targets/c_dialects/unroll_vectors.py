"""Turn vectorised loops that C's dialects get wrong into scalar code.

Lanes that read bytes at distant addresses; booleans in memory for CUDA; booleans that are selected by, converted or stored for
OpenCL. Repairs: `gathered-bytes`, `cuda-vector-booleans`, `opencl-vector-booleans`.
"""

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.ir.rewriting import map_body
from tvmake.targets.affected import is_affected

tirx = tvm.tirx

BYTES = ("int8", "uint8")


@tirx.transform.prim_func_pass(opt_level=0, name="GatheredBytes")
def unroll_gathered_bytes(func: Any, _module: Any, _context: Any) -> Any:
    """Unroll vectorised loops whose lanes read non-adjacent bytes."""
    return _unroll_loops(func, _gathers) if is_affected() else func


@tirx.transform.prim_func_pass(opt_level=0, name="StoredBooleans")
def unroll_stored_booleans(func: Any, _module: Any, _context: Any) -> Any:
    """Unroll vectorised loops over booleans in memory."""
    return _unroll_loops(func, _accesses_booleans)


@tirx.transform.prim_func_pass(opt_level=0, name="ScalarBooleans")
def unroll_booleans(func: Any, _module: Any, _context: Any) -> Any:
    """Unroll vectorised loops that use booleans other than to guard a branch."""
    return _unroll_loops(func, _uses_booleans)


def _unroll_loops(func: Any, is_wrong: Callable[[Any], bool]) -> Any:
    """Unroll the vectorised loops for which ``is_wrong`` holds; unchanged if there is none."""

    def scalar(loop: Any) -> Any:
        if loop.kind != tirx.ForKind.VECTORIZED or not is_wrong(loop):
            return loop
        return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.UNROLLED, loop.body)

    return map_body(func, (tirx.For, scalar))


def _accesses_booleans(loop: Any) -> bool:
    accessed: list[Any] = []
    stores = (tirx.BufferStore, lambda store: accessed.append(store.buffer))
    loads = (tvm.ir.expr.TensorLoad, lambda load: accessed.append(load.source))
    tvm_ffi.structural_walk(loop.body, [stores, loads])
    return any(map(_is_boolean, accessed))


def _uses_booleans(loop: Any) -> bool:
    uses: list[Any] = []

    def note(typed: Any) -> None:
        if _is_boolean(typed):
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


def _is_boolean(typed: Any) -> bool:
    """Whether a type or a buffer is boolean."""
    return dtype_name(typed).startswith("bool")


def _gathers(loop: Any) -> bool:
    """Whether lanes read non-adjacent bytes."""
    lanes = [loop.loop_var]
    gathers: list[Any] = []

    def note_block(realize: Any) -> None:
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if _uses(value, lanes):
                lanes.append(axis.var)

    def note_load(load: Any) -> None:
        if dtype_name(load.source) not in BYTES or not len(load.indices):
            return
        *outer, last = load.indices
        if any(_uses(index, lanes) for index in outer) or _stride(last, lanes) not in (0, 1):
            gathers.append(load)

    tvm_ffi.structural_walk(loop.body, (tvm.s_tir.SBlockRealize, note_block))
    tvm_ffi.structural_walk(loop.body, (tvm.ir.expr.TensorLoad, note_load))
    return bool(gathers)


def _uses(expression: Any, variables: list[Any]) -> bool:
    uses: list[Any] = []

    def note(variable: Any) -> None:
        if any(variable.same_as(lane) for lane in variables):
            uses.append(variable)

    tvm_ffi.structural_walk(expression, (tvm.ir.Var, note))
    return bool(uses)


def _stride(index: Any, lanes: list[Any]) -> int | None:
    """The increment of an index per lane; None if it is not a constant."""
    if not _uses(index, lanes):
        return 0
    terms = tvm.sym.detect_linear_equation(index, lanes)
    strides = {int(term) for term in terms[:-1] if isinstance(term, tvm.tirx.IntImm)} - {0}
    return strides.pop() if len(strides) == 1 else None
