"""Keep tiles of results in registers, whatever their size.

LLVM turns a buffer into registers if all its indices are constant. A core with AVX-512 has 2,048 bytes of registers,
and needs sums in more than half of them to be busy. Repair: `large-local-buffers`.
"""

import math
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.rewriting import map_body

from tvm import tirx  # isort: skip

ON_STACK = "disable_lower_builtin"
"""TVM's annotation that keeps its runtime from allocating a buffer."""

REGISTER_BYTES = 2048
"""Maximum size of a processor's vector registers."""


@tirx.transform.prim_func_pass(opt_level=0, name="Registers")
def keep_in_registers(func: Any, _module: Any, _context: Any) -> Any:
    """Leave small buffers with constant indices to LLVM; for lowered functions."""
    in_memory: set[Any] = set()
    """Buffers with an index that is not constant."""

    def note(buffer: Any, indices: Any) -> None:
        if not all(map(_is_constant, indices)):
            in_memory.add(buffer)

    accesses = [
        (tvm.ir.TensorLoad, lambda load: note(load.source, load.indices)),
        (tirx.BufferStore, lambda store: note(store.buffer, store.indices)),
        (
            tvm.ir.Call,
            lambda call: in_memory.update(argument for argument in call.args if isinstance(argument, tvm.ir.Var)),
        ),
    ]
    tvm_ffi.structural_walk(func.body, accesses)

    def mark(allocation: Any) -> Any:
        buffer = allocation.buffer
        if buffer in in_memory or not 0 < _bytes(buffer) <= REGISTER_BYTES:
            return allocation
        return tirx.AllocBuffer(buffer, {**(allocation.annotations or {}), ON_STACK: tirx.const(1, "int32")})

    return map_body(func, (tirx.AllocBuffer, mark))


def _is_constant(index: Any) -> bool:
    return isinstance(index.base if isinstance(index, tirx.Ramp) else index, tirx.IntImm)


def _bytes(buffer: Any) -> int:
    """Bytes of a buffer; 0 if its shape is dynamic."""
    if not all(map(_is_constant, buffer.shape)):
        return 0
    dtype = tvm.DataType(buffer.dtype)
    return math.prod(map(int, buffer.shape)) * dtype.lanes * -(-dtype.bits // 8)
