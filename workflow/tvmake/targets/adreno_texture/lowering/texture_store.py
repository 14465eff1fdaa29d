"""Write all four values of a texture's pixel in one store.

Before textures are flattened, a loop over the lanes gathers the values, then stores them as a vector. A store outside
such a loop is refused, because no later pass can correct it. Repair: `texture-vector-store`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name

tirx = tvm.tirx

LANES = 4

SEQUENTIAL = (tirx.ForKind.SERIAL, tirx.ForKind.VECTORIZED, tirx.ForKind.UNROLLED)

TEXTURE = "texture"
"""Part of the storage scope of every kind of texture (``global.texture-weight``)."""


@tirx.transform.prim_func_pass(opt_level=0, name="StoreWholePixels")
def store_whole_pixels(func: Any, _module: Any, _context: Any) -> Any:
    """Gather the four lanes of each texture store.

    Raises:
    ValueError: a schedule writes lanes one by one.
    """
    if not _texture_stores(func.body):
        return func
    body = tvm_ffi.structural_map(func.body, (tirx.For, _gather_lanes))
    for store in _texture_stores(body):
        if not isinstance(store.indices[-1], tirx.Ramp):
            raise ValueError(
                f"the schedule writes single lanes of the texture '{store.buffer.name}', which would overwrite the"
                " others"
            )
    return func.with_body(body)


def _gather_lanes(loop: Any) -> Any:
    """Rewrite ``for i in 4: … texture[index, i] = value`` to a loop into a local buffer and one store after it."""
    if loop.kind not in SEQUENTIAL or not _is(loop.min, 0) or not _is(loop.extent, LANES):
        return loop
    stores = [store for store in _texture_stores(loop.body) if not isinstance(store.indices[-1], tirx.Ramp)]
    if len(stores) != 1:
        return loop
    (store,) = stores
    *position, lane = store.indices
    conditions = _conditions(loop.body, store)
    inside = {loop.loop_var, *_bound(loop.body)}
    outside = [*position, *conditions]
    if not _same(lane, loop.loop_var) or any(variable in inside for part in outside for variable in _variables(part)):
        return loop
    pixel = tirx.decl_buffer((LANES,), dtype_name(store.buffer), name="pixel", scope="local")

    def into_pixel(node: Any) -> Any:
        return tirx.BufferStore(pixel, node.value, [loop.loop_var]) if node.same_as(store) else node

    body = tvm_ffi.structural_map(loop.body, (tirx.BufferStore, into_pixel))
    filling = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)
    lanes = tirx.Ramp(tirx.const(0, "int32"), tirx.const(1, "int32"), LANES)
    write = tirx.BufferStore(store.buffer, tirx.BufferLoad(pixel, [lanes]), [*position, lanes])
    for condition in conditions:
        write = tirx.IfThenElse(condition, write, None)
    return tirx.SeqStmt([tirx.AllocBuffer(pixel), filling, write])


def _texture_stores(body: Any) -> list[Any]:
    nodes: list[Any] = []
    tvm_ffi.structural_walk(body, (tirx.BufferStore, nodes.append))
    return [store for store in nodes if TEXTURE in str(store.buffer.scope())]


def _conditions(body: Any, store: Any) -> list[Any]:
    """The conditions of a store inside a statement, the innermost first."""
    nodes: list[Any] = []
    tvm_ffi.structural_walk(body, (tirx.IfThenElse, nodes.append))
    enclosing: list[Any] = []
    for branch in nodes:
        if any(inner.same_as(store) for inner in _texture_stores(branch.then_case)):
            enclosing.append(branch.condition)
        elif branch.else_case is not None and any(inner.same_as(store) for inner in _texture_stores(branch.else_case)):
            enclosing.append(tirx.Not(branch.condition))
    return enclosing


def _bound(body: Any) -> set[Any]:
    """The variables bound in a statement."""
    nodes: list[Any] = []
    tvm_ffi.structural_walk(
        body, [(tirx.For, lambda loop: nodes.append(loop.loop_var)), (tirx.Bind, lambda bind: nodes.append(bind.var))]
    )
    return set(nodes)


def _variables(expression: Any) -> list[Any]:
    nodes: list[Any] = []
    tvm_ffi.structural_walk(expression, (tirx.Var, nodes.append))
    return nodes


def _same(left: Any, right: Any) -> bool:
    return isinstance(left, tirx.Var) and left.same_as(right)


def _is(expression: Any, value: int) -> bool:
    return isinstance(expression, tirx.IntImm) and int(expression) == value
