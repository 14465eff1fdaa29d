"""Plan the memory of a network once, for all sizes of its dynamic dimensions."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi

from tvmake.artifact.signature import Bounds
from tvmake.ir.bounds import with_bounds
from tvmake.ir.dimensions import TYPICAL_EXTENT
from tvmake.ir.expressions import bindings, is_call
from tvmake.ir.rewriting import rewritten

from tvm import relax, tirx  # isort: skip
from tvm.relax.expr_functor import PyExprMutator, mutator  # isort: skip

MOST_PLANNED_BYTES = 4 << 30
"""Limit for all storage together. Model files may state unrealistic bounds, such as 1,024 sequences of 4,096 tokens."""

STORAGE, TENSOR = "memory.alloc_storage", "memory.alloc_tensor"


@tvm.transform.module_pass(opt_level=0, name="PlanMemory")
class PlanMemory:
    """TVM's ``StaticPlanBlockMemory``, with bounds that earlier passes may have dropped.

    If all dimensions have an upper bound, storage has constant sizes, and each run allocates the same memory.
    Otherwise, or beyond :data:`MOST_PLANNED_BYTES`, tensors share storage as they would at typical sizes, and each run
    allocates the size of a storage's largest tensor. TVM itself lets dynamic tensors share storage only if their sizes
    are equal. A tensor whose size is read from data after its storage is allocated gets storage of its own.
    """

    def __init__(self, bounds: Mapping[str, Bounds]):
        self.bounds = bounds

    def transform_module(self, module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
        """The module with planned storage."""
        plan = relax.transform.StaticPlanBlockMemory()
        names = sorted({str(symbol.name) for symbol in relax.analysis.defined_symbolic_vars(module["main"])})
        bounds = {name: self.bounds.get(name, (0, None)) for name in names}
        if all(most is not None for _, most in bounds.values()):
            try:
                planned = plan(with_bounds(module, self.bounds))
            except ValueError:  # a size that 64 bits do not hold
                planned = None
            if planned is not None and (not names or _constant_bytes(planned["main"]) <= MOST_PLANNED_BYTES):
                return planned
        typical = {
            name: (least, max(least, min(most or TYPICAL_EXTENT, TYPICAL_EXTENT)))
            for name, (least, most) in bounds.items()
        }
        shared = plan(with_bounds(module, typical))
        return with_bounds(rewritten(shared, _StorageSizer(shared)), self.bounds)


def _constant_bytes(main: Any) -> int:
    sizes = (binding.value.args[0] for binding in bindings(main) if is_call(binding.value, STORAGE))
    return sum(math.prod(map(int, size)) for size in sizes if all(isinstance(part, tirx.IntImm) for part in size))


@mutator
class _StorageSizer(PyExprMutator):
    def __init__(self, module: "tvm.IRModule"):
        super().__init__(module)
        self._analyzer = tvm.sym.Analyzer()
        self._sizes: dict[Any, list[Any]] = {}
        """Sizes of tensors by their storage, as far as they are known when it is allocated."""
        self._late: set[Any] = set()
        """Tensors of other sizes."""
        known = {symbol for parameter in module["main"].params for symbol in _symbols(parameter.ty)}
        known_before: dict[Any, set[Any]] = {}
        for symbol in relax.analysis.defined_symbolic_vars(module["main"]):
            self._analyzer.bind(
                symbol, tvm.ir.Range.from_min_extent(tirx.IntImm("int64", 0), tirx.IntImm("int64", 1 << 31))
            )
        for binding in bindings(module["main"]):
            if isinstance(binding, relax.MatchCast):
                known |= _symbols(binding.ty)
            elif is_call(binding.value, STORAGE):
                known_before[binding.var] = set(known)
            elif is_call(binding.value, TENSOR):
                storage, size = binding.value.args[0], _bytes(binding.var.ty)
                if _symbols(size) <= known_before[storage]:
                    self._sizes.setdefault(storage, []).append(size)
                else:
                    self._late.add(binding.var)

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        value, sizes = binding.value, self._sizes.get(binding.var, [])
        if binding.var in self._late:
            storage = self._emit_storage(self.lookup_binding(value.args[0]), [_bytes(binding.var.ty)], "storage")
            value = relax.op.memory.alloc_tensor(storage, 0, *value.args[2:])
            self.set_var_remap(binding.var, self.builder_.emit(value, str(binding.var.name)))
            return
        is_storage = is_call(value, STORAGE) and isinstance(value.args[0][0], tirx.IntImm)
        if not is_storage or all(isinstance(size, tirx.IntImm) for size in sizes):
            super().visit_var_binding_(binding)
            return
        self.set_var_remap(binding.var, self._emit_storage(value, sizes, str(binding.var.name)))

    def _emit_storage(self, like: Any, sizes: Sequence[Any], name: str) -> Any:
        size = relax.ShapeExpr([self._largest(sizes)])
        return self.builder_.emit(relax.Call(like.op, [size, *like.args[1:]], like.attrs, like.ty_args), name)

    def _largest(self, sizes: Sequence[Any]) -> Any:
        """The maximum of several sizes, without sizes that are never the largest."""
        largest: list[Any] = []
        for size in map(self._analyzer.simplify, sizes):
            if not any(self._is_at_least(candidate, size) for candidate in largest):
                largest = [candidate for candidate in largest if not self._is_at_least(size, candidate)] + [size]
        result = largest[0]
        for size in largest[1:]:
            result = tirx.max(result, size)
        return result

    def _is_at_least(self, size: Any, other: Any) -> bool:
        return tvm_ffi.structural_equal(size, other) or self._analyzer.can_prove(size >= other)


def _symbols(node: Any) -> set[Any]:
    """The dimensions that a type or a size contains."""
    found: list[Any] = []
    tvm_ffi.structural_walk(node, (tirx.Var, found.append))
    return set(found)


def _bytes(kind: Any) -> Any:
    """The size of a tensor in bytes, as TVM stores its elements."""
    dtype = tvm.DataType(str(kind.dtype.dtype))
    count = math.prod(kind.shape, start=tirx.IntImm("int64", 1))
    return count * (-(-dtype.bits * dtype.lanes // 8))
