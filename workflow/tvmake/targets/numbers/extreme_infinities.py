"""Maxima and minima of infinities: the largest of nothing but -∞ is -∞.

They begin with infinities; not where threads share an extreme, because TVM recognises such reductions by their initial value.
Repair: `extrema-of-infinities`.
"""

import math
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.targets.affected import is_affected

tirx = tvm.tirx

RELEASES = "<0.28"

FLOATS = ("float16", "float32", "float64")

REDUCTION = tirx.IterVar.CommReduce

POOLING = "max_pool"
"""In the names of kernels whose borders are such numbers; others may have one that a network states itself."""


@tirx.transform.prim_func_pass(opt_level=0, name="ExtremeInfinities")
class ExtremeInfinities:
    """Begin extrema of floating-point numbers with infinities."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such beginnings; one without extrema as it is."""
        if not is_affected(RELEASES):
            return func
        beginnings = _Beginnings(func)
        if not beginnings.signs or beginnings.are_shared:
            return func
        steps = [(tirx.BufferStore, beginnings.store), (tirx.FloatImm, beginnings.border)]
        body = tvm_ffi.structural_map(func.body, steps)
        return func if body.same_as(func.body) else func.with_body(body)


class _Beginnings:
    """Those of one function."""

    def __init__(self, func: Any):
        self.signs: dict[Any, float] = {}
        """Of the infinity that a buffer begins with, which holds the extreme of what came before."""
        self.has_borders = POOLING in str((func.attrs or {}).get("global_symbol", ""))
        self.are_shared = False
        """Whether several threads look for one."""
        self._threads: set[Any] = set()
        tvm_ffi.structural_walk(func.body, (tirx.For, self._note_loop))
        steps = [(tirx.BufferStore, self._note), (tvm.s_tir.SBlockRealize, self._note_block)]
        tvm_ffi.structural_walk(func.body, steps)

    def _note_loop(self, loop: Any) -> None:
        if loop.thread_binding is not None:
            self._threads.add(loop.loop_var)

    def _note_block(self, realize: Any) -> None:
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if axis.iter_type == REDUCTION:
                tvm_ffi.structural_walk(value, (tvm.ir.Var, self._note_variable))

    def _note_variable(self, variable: Any) -> None:
        self.are_shared |= variable in self._threads

    def _note(self, store: Any) -> None:
        value: Any = store.value
        for kind, sign in ((tirx.Max, -1.0), (tirx.Min, 1.0)):
            if (
                isinstance(value, kind)
                and isinstance(value.a, tvm.ir.TensorLoad)
                and value.a.source.same_as(store.buffer)
            ):
                self.signs[store.buffer] = sign

    def store(self, store: Any) -> Any:
        """A beginning by an infinity; other stores as they are."""
        sign = self.signs.get(store.buffer)
        if sign is None or not _is_limit(store.value, sign):
            return store
        return tirx.BufferStore(store.buffer, _infinity(store.value, sign), store.indices)

    def border(self, number: Any) -> Any:
        """An infinity for the number around a picture."""
        return _infinity(number, -1.0) if self.has_borders and _is_limit(number, -1.0) else number


def _is_limit(value: Any, sign: float) -> bool:
    """Whether it is the largest finite number of its type, with a sign."""
    if not isinstance(value, tirx.FloatImm) or dtype_name(value.ty) not in FLOATS:
        return False
    return float(value.value) == sign * float(np.finfo(dtype_name(value.ty)).max)


def _infinity(like: Any, sign: float) -> Any:
    return tirx.const(math.copysign(math.inf, sign), dtype_name(like.ty))
