"""Write a texture's pixel at once.

A texel of a texture holds four values. Before textures are flattened, a loop over the lanes first gathers them, then stores them as a
vector. A store outside of such a loop is refused, because no later pass can correct it. Repair: `texture-vector-store`.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name

tirx = tvm.tirx

LANES = 4

SEQUENTIAL = (tirx.ForKind.SERIAL, tirx.ForKind.VECTORIZED, tirx.ForKind.UNROLLED)

TEXTURE = "texture"
"""In the storage scope of every kind of texture (``global.texture-weight``)."""


@tirx.transform.prim_func_pass(opt_level=0, name="StoreWholePixels")
class StoreWholePixels:
    """Gather the four lanes of each texture store.

    Raises:
        ValueError: a schedule writes lanes one by one.
    """

    def transform_function(self, func: Any, _module: Any, _context: Any) -> Any:
        """The function with vector stores; one that writes no textures as it is."""
        if not _texture_stores(func.body):
            return func
        body = tvm_ffi.structural_map(func.body, (tirx.For, _gathered))
        for store in _texture_stores(body):
            if not isinstance(store.indices[-1], tirx.Ramp):
                raise ValueError(
                    f"the schedule writes single lanes of the texture '{store.buffer.name}', which would overwrite the"
                    " others"
                )
        return func.with_body(body)


def _gathered(loop: Any) -> Any:
    """``for i in 4: … texture[place, i] = value`` as the loop into a local buffer, and one store after it."""
    if loop.kind not in SEQUENTIAL or not _is(loop.min, 0) or not _is(loop.extent, LANES):
        return loop
    stores = [store for store in _texture_stores(loop.body) if not isinstance(store.indices[-1], tirx.Ramp)]
    if len(stores) != 1:
        return loop
    (store,) = stores
    *place, lane = store.indices
    conditions = _conditions(loop.body, store)
    inside = {loop.loop_var, *_bound(loop.body)}
    outside = [*place, *conditions]
    if not _same(lane, loop.loop_var) or any(variable in inside for part in outside for variable in _variables(part)):
        return loop
    pixel = tirx.decl_buffer((LANES,), dtype_name(store.buffer), name="pixel", scope="local")

    def into_pixel(node: Any) -> Any:
        return tirx.BufferStore(pixel, node.value, [loop.loop_var]) if node.same_as(store) else node

    body = tvm_ffi.structural_map(loop.body, (tirx.BufferStore, into_pixel))
    filling = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)
    lanes = tirx.Ramp(tirx.const(0, "int32"), tirx.const(1, "int32"), LANES)
    write = tirx.BufferStore(store.buffer, tirx.BufferLoad(pixel, [lanes]), [*place, lanes])
    for condition in conditions:
        write = tirx.IfThenElse(condition, write, None)
    return tirx.SeqStmt([tirx.AllocBuffer(pixel), filling, write])


def _texture_stores(body: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(body, (tirx.BufferStore, found.append))
    return [store for store in found if TEXTURE in str(store.buffer.scope())]


def _conditions(body: Any, store: Any) -> list[Any]:
    """What has to hold for a store inside a statement, the innermost condition first."""
    found: list[Any] = []
    tvm_ffi.structural_walk(body, (tirx.IfThenElse, found.append))
    holds: list[Any] = []
    for branch in found:
        if any(inner.same_as(store) for inner in _texture_stores(branch.then_case)):
            holds.append(branch.condition)
        elif branch.else_case is not None and any(inner.same_as(store) for inner in _texture_stores(branch.else_case)):
            holds.append(tirx.Not(branch.condition))
    return holds


def _bound(body: Any) -> set[Any]:
    """The variables that a statement binds."""
    found: list[Any] = []
    tvm_ffi.structural_walk(
        body, [(tirx.For, lambda loop: found.append(loop.loop_var)), (tirx.Bind, lambda bind: found.append(bind.var))]
    )
    return set(found)


def _variables(expression: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (tirx.Var, found.append))
    return found


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, tirx.Var) and one.same_as(other)


def _is(expression: Any, value: int) -> bool:
    return isinstance(expression, tirx.IntImm) and int(expression) == value
