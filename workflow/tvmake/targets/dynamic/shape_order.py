"""Keep dynamic-shape code in a fixed order.

TVM's module that keeps symbolic variables in sets gets insertion-ordered sets, and independent stores are sorted by the
slot that they write. Repair: `order-by-address`.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.affected import is_affected

tirx, relax_utils = tvm.tirx, tvm.relax.utils

UNKNOWN_SLOT = -1


class _OrderedSet(dict):
    """The three set operations that tvm/relax/utils.py uses, in insertion order."""

    def add(self, item: Any) -> None:
        self[item] = None

    def update(self, items: Iterable[Any]) -> None:  # type: ignore[override]
        for item in items:
            self.add(item)

    def __sub__(self, other: Any) -> list[Any]:
        return [item for item in self if item not in other]


@contextmanager
def ordered_shape_variables() -> Iterator[None]:
    """While active, legalisation passes symbolic variables to kernels in order of use."""
    if not is_affected():
        yield
        return
    relax_utils.set = _OrderedSet
    try:
        yield
    finally:
        del relax_utils.set


@tirx.transform.prim_func_pass(opt_level=0, name="OrderShapeStores")
def order_shape_stores(func: tvm.tirx.PrimFunc, _module: Any, _context: Any) -> tvm.tirx.PrimFunc:
    """Sort the stores of a host shape function by slot, if none reads another's slot."""
    if not (func.attrs and func.attrs.get("tirx.is_host_func")) or not isinstance(func.body, tirx.SeqStmt):
        return func
    stores = list(func.body.seq)
    if not all(isinstance(store, tirx.BufferStore) and isinstance(store.indices[0], tirx.IntImm) for store in stores):
        return func
    slots, read = [_slot(store) for store in stores], _slots_read(stores)
    if len(set(slots)) != len(slots) or read & set(slots) or UNKNOWN_SLOT in read:
        return func
    ordered = [store for _, store in sorted(zip(slots, stores, strict=True), key=lambda pair: pair[0])]
    return func.with_body(tirx.SeqStmt(ordered))


def _slots_read(stores: list[Any]) -> set[int]:
    read: set[int] = set()
    for store in stores:
        tvm_ffi.structural_walk(store.value, (tvm.ir.expr.TensorLoad, lambda load: read.add(_slot(load))))
    return read


def _slot(access: Any) -> int:
    return int(access.indices[0]) if isinstance(access.indices[0], tirx.IntImm) else UNKNOWN_SLOT
