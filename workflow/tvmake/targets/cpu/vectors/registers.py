"""Tiles of results that are kept in registers, whatever their size.

LLVM turns a buffer into registers if all of its indices are constant. A core with AVX-512 has 2,048 bytes of registers, and needs more
sums than half of them hold to be busy. Repair: `large-local-buffers`.
"""

import math
from typing import Any

import tvm
import tvm_ffi

from tvm import tirx  # isort: skip

ON_STACK = "disable_lower_builtin"
"""TVM's name of what keeps a buffer from being allocated by its runtime."""

REGISTER_BYTES = 2048
"""The most that a processor's vector registers hold."""


@tirx.transform.prim_func_pass(opt_level=0, name="Registers")
class Registers:
    """Leave small buffers whose places are all known to LLVM; for lowered functions."""

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with such buffers marked; one without any as it is."""
        in_memory: set[Any] = set()
        """Buffers with a place that is not known."""

        def note(buffer: Any, places: Any) -> None:
            if not all(map(_is_known, places)):
                in_memory.add(buffer)

        accesses = [
            (tvm.ir.TensorLoad, lambda load: note(load.source, load.indices)),
            (tirx.BufferStore, lambda store: note(store.buffer, store.indices)),
            (tvm.ir.Call, lambda call: in_memory.update(each for each in call.args if isinstance(each, tvm.ir.Var))),
        ]
        tvm_ffi.structural_walk(func.body, accesses)

        def marked(allocation: Any) -> Any:
            buffer = allocation.buffer
            if buffer in in_memory or not 0 < _bytes(buffer) <= REGISTER_BYTES:
                return allocation
            return tirx.AllocBuffer(buffer, {**(allocation.annotations or {}), ON_STACK: tirx.const(1, "int32")})

        body = tvm_ffi.structural_map(func.body, (tirx.AllocBuffer, marked))
        return func if body.same_as(func.body) else func.with_body(body)


def _is_known(place: Any) -> bool:
    return isinstance(place.base if isinstance(place, tirx.Ramp) else place, tirx.IntImm)


def _bytes(buffer: Any) -> int:
    """Of a buffer; 0 where its shape is not known."""
    if not all(map(_is_known, buffer.shape)):
        return 0
    dtype = tvm.DataType(buffer.dtype)
    return math.prod(map(int, buffer.shape)) * dtype.lanes * -(-dtype.bits // 8)
