"""Give each lane of a vectorised loop its own local buffer.

The buffer gets an axis for the lanes and moves out of the loop. Repair: `adreno-lanes-share-buffer`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.ir.rewriting import map_body

tirx = tvm.tirx


@tirx.transform.prim_func_pass(opt_level=0, name="SeparateLanes")
def separate_lanes(func: Any, _module: Any, _context: Any) -> Any:
    """Move buffers out of vectorised loops, one element a lane."""
    return map_body(func, (tirx.For, _separate_lanes))


def _separate_lanes(loop: Any) -> Any:
    if loop.kind != tirx.ForKind.VECTORIZED:
        return loop
    allocations: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (tirx.AllocBuffer, allocations.append))
    if not allocations:
        return loop
    wide = {node.buffer: _with_lane_axis(node.buffer, loop.extent) for node in allocations}
    lane = loop.loop_var - loop.min

    def store(node: Any) -> Any:
        if node.buffer not in wide:
            return node
        return tirx.BufferStore(wide[node.buffer], node.value, [*node.indices, lane])

    def load(node: Any) -> Any:
        if node.source not in wide:
            return node
        return tirx.BufferLoad(wide[node.source], [*node.indices, lane])

    def allocation(node: Any) -> Any:
        return tirx.Evaluate(tirx.const(0, "int32")) if node.buffer in wide else node

    callbacks = [(tirx.BufferStore, store), (tvm.ir.expr.TensorLoad, load), (tirx.AllocBuffer, allocation)]
    body = tvm_ffi.structural_map(loop.body, callbacks)
    separated = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)
    return tirx.SeqStmt([*(tirx.AllocBuffer(buffer) for buffer in wide.values()), separated])


def _with_lane_axis(buffer: Any, lanes: Any) -> Any:
    return tirx.decl_buffer([*buffer.shape, lanes], dtype_name(buffer), name=buffer.name, scope=str(buffer.scope()))
