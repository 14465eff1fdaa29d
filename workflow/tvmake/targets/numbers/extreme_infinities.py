"""Correct maxima and minima of infinities: the maximum of only -∞ is -∞.

Reductions start from infinities, unless threads share an extremum, because TVM recognises such reductions by their
initial value. Repair: `extrema-of-infinities`.
"""

import math
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.ir.rewriting import map_body
from tvmake.targets.affected import is_affected

tirx = tvm.tirx

FLOATS = ("float16", "float32", "float64")

REDUCTION = tirx.IterVar.CommReduce

POOLING = "max_pool"
"""Part of the names of kernels whose padding uses such limits; in others, the network may define the value itself."""


@tirx.transform.prim_func_pass(opt_level=0, name="ExtremeInfinities")
def start_from_infinities(func: Any, _module: Any, _context: Any) -> Any:
    """Start floating-point extrema from infinities."""
    if not is_affected():
        return func
    initial_values = _InitialValues(func)
    if not initial_values.signs or initial_values.are_shared:
        return func
    callbacks = [(tirx.BufferStore, initial_values.store), (tirx.FloatImm, initial_values.padding)]
    return map_body(func, callbacks)


class _InitialValues:
    def __init__(self, func: Any):
        self.signs: dict[Any, float] = {}
        """Sign of the infinity that an accumulating buffer starts from."""
        self.has_padding = POOLING in str((func.attrs or {}).get("global_symbol", ""))
        self.are_shared = False
        """Whether several threads share an extremum."""
        self._threads: set[Any] = set()
        tvm_ffi.structural_walk(func.body, (tirx.For, self._note_loop))
        callbacks = [(tirx.BufferStore, self._note), (tvm.s_tir.SBlockRealize, self._note_block)]
        tvm_ffi.structural_walk(func.body, callbacks)

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
        """Replace an initial value by an infinity; other stores unchanged."""
        sign = self.signs.get(store.buffer)
        if sign is None or not _is_limit(store.value, sign):
            return store
        return tirx.BufferStore(store.buffer, _infinity(store.value, sign), store.indices)

    def padding(self, number: Any) -> Any:
        """Replace the padding value of a feature map by an infinity."""
        return _infinity(number, -1.0) if self.has_padding and _is_limit(number, -1.0) else number


def _is_limit(value: Any, sign: float) -> bool:
    """Whether a value is the largest finite number of its dtype, with the given sign."""
    if not isinstance(value, tirx.FloatImm) or dtype_name(value.ty) not in FLOATS:
        return False
    return float(value.value) == sign * float(np.finfo(dtype_name(value.ty)).max)


def _infinity(like: Any, sign: float) -> Any:
    return tirx.const(math.copysign(math.inf, sign), dtype_name(like.ty))
