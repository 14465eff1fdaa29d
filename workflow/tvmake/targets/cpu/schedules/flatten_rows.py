"""Merge dynamic leading axes into one axis of rows: ``[batch, length, channels]`` to ``[batch * length, channels]``.

The rows of a tile come from one axis. A dynamic batch is often 1 and a dynamic length often short, so neither fills a
tile alone. Arguments keep their shapes: ``x[r // length, r % length, c]`` has the address of row ``r``, which TVM
simplifies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from typing import Any

import tvm
import tvm_ffi

from tvmake.targets.cpu.schedules.accesses import SPATIAL, contraction, is_dynamic, loads_in, uses
from tvmake.targets.cpu.schedules.tiled import ENOUGH_ROWS

from tvm import s_tir, tirx  # isort: skip


@dataclass(frozen=True)
class _Nest:
    """A block within the loops over its axes."""

    statement: Any
    """The outermost statement."""
    loops: Sequence[Any]
    realize: Any

    @property
    def block(self) -> Any:
        return self.realize.block

    @property
    def is_plain(self) -> bool:
        """Whether each axis is a loop variable, without a condition."""
        values = self.realize.iter_values
        are_loops = len(self.loops) == len(values) and all(
            loop.loop_var.same_as(value) for loop, value in zip(self.loops, values, strict=True)
        )
        return are_loops and tvm.sym.Analyzer().can_prove(self.realize.predicate)


def flatten_rows(function: "tvm.tirx.PrimFunc") -> "tvm.tirx.PrimFunc":
    """Fuse the leading axes that a kernel's blocks share with its last block; unchanged if none is dynamic.

    Blocks without these axes, such as scales of weights, stay unchanged.
    """
    root = function.body.block
    nests = _nests(_drop_unit_reductions(root.body))
    if nests is None:
        return function
    axes = list(takewhile(lambda axis: axis.iter_type == SPATIAL, nests[-1].block.iter_vars))
    while len(axes) > 1 and not _can_flatten_all(nests, axes, list(root.alloc_buffers)):
        axes.pop()
    if len(axes) < 2 or not _needs_rows(nests, axes):
        return function
    own = _written_buffers(nests, axes, list(root.alloc_buffers))
    parts = [part for nest in nests for part in (_separate_result(nest, own) if _begins_with(nest, axes) else [nest])]
    rewriter = _RowFlattener([axis.dom.extent for axis in axes], own)
    rows = [rewriter.nest(part) if _begins_with(part, axes) else part.statement for part in parts]
    buffers = [rewriter.buffers.pop(buffer, buffer) for buffer in root.alloc_buffers] + list(rewriter.buffers.values())
    flat = s_tir.SBlock(
        root.iter_vars, root.reads, root.writes, root.name_hint, tirx.SeqStmt(rows) if len(rows) > 1 else rows[0],
        root.init, buffers, root.match_buffers, root.annotations,
    )  # fmt: skip
    return function.with_body(s_tir.SBlockRealize(function.body.iter_values, function.body.predicate, flat))


def _drop_unit_reductions(body: Any) -> Any:
    """Replace reduction axes of length 1 by zero, so that 1×1 windows read at the index of their result."""

    def substitute(block: Any) -> Any:
        zeros = {
            axis.var: tirx.const(0, axis.var.ty.dtype)
            for axis in block.iter_vars
            if axis.iter_type != SPATIAL and isinstance(axis.dom.extent, tirx.IntImm) and int(axis.dom.extent) == 1
        }
        if not zeros:
            return block
        value = tvm_ffi.structural_map(block.body, (tvm.ir.Var, lambda variable: zeros.get(variable, variable)))
        reads = tvm_ffi.structural_map(block.reads, (tvm.ir.Var, lambda variable: zeros.get(variable, variable)))
        return s_tir.SBlock(
            block.iter_vars, reads, block.writes, block.name_hint, _simplify_indices(value), block.init,
            block.alloc_buffers, block.match_buffers, block.annotations,
        )  # fmt: skip

    return tvm_ffi.structural_map(body, (s_tir.SBlock, substitute))


def _simplify_indices(statement: Any) -> Any:
    simplify = tvm.sym.Analyzer().simplify
    return tvm_ffi.structural_map(
        statement, (tvm.ir.TensorLoad, lambda load: tirx.BufferLoad(load.source, list(map(simplify, load.indices))))
    )


def _needs_rows(nests: Sequence[_Nest], axes: Sequence[Any]) -> bool:
    """Whether merging speeds a kernel up: fused loops may start with a dynamic axis, but a tile needs a single one."""
    if any(contraction(nest.block) is not None for nest in nests if _begins_with(nest, axes)):
        return any(map(is_dynamic, axes))
    return any(map(is_dynamic, axes[1:]))


def _begins_with(nest: _Nest, axes: Sequence[Any]) -> bool:
    """Whether a block's first axes are spatial and have these extents."""
    own = list(nest.block.iter_vars)[: len(axes)]
    return len(own) == len(axes) and all(
        mine.iter_type == SPATIAL and tvm_ffi.structural_equal(mine.dom.extent, axis.dom.extent)
        for mine, axis in zip(own, axes, strict=True)
    )


def _written_buffers(nests: Sequence[_Nest], axes: Sequence[Any], own: Sequence[Any]) -> list[Any]:
    """The kernel's internal buffers that blocks with these axes write."""
    written = [nest.block.body.buffer for nest in nests if _begins_with(nest, axes)]
    return [buffer for buffer in own if any(buffer.same_as(other) for other in written)]


def _can_flatten_all(nests: Sequence[_Nest], axes: Sequence[Any], own: Sequence[Any]) -> bool:
    """Whether one axis can replace these axes in all their blocks, and other blocks read none of the results."""
    written = _written_buffers(nests, axes, own)
    for nest in nests:
        if not _begins_with(nest, axes):
            loads = [load.source for load in loads_in(nest.block.body)]
            if any(source.same_as(buffer) for source in loads for buffer in written):
                return False
        elif not nest.is_plain or not _can_flatten(nest.block, len(axes), written):
            return False
    return not _has_fixed_rows([nest for nest in nests if _begins_with(nest, axes)], len(axes))


def _nests(body: Any) -> list[_Nest] | None:
    """A kernel's blocks with their loops; None if a block stores more than one value."""
    nests = []
    for whole in body.seq if isinstance(body, tirx.SeqStmt) else [body]:
        statement, loops = whole, []
        while isinstance(statement, tirx.For):
            loops.append(statement)
            statement = statement.body
        if not isinstance(statement, s_tir.SBlockRealize) or not isinstance(statement.block.body, tirx.BufferStore):
            return None
        nests.append(_Nest(whole, loops, statement))
    return nests


def _can_flatten(block: Any, count: int, own: Sequence[Any]) -> bool:
    """Whether one axis can replace a block's first ``count`` axes without making it slower."""
    axes = list(block.iter_vars)[:count]
    accesses = [
        (block.body.buffer, block.body.indices),
        *((load.source, load.indices) for load in loads_in(block.body)),
    ]
    if block.init is not None:
        accesses += [(block.init.buffer, block.init.indices)]
    for buffer, indices in accesses:
        leads = len(indices) >= count and all(
            index.same_as(axis.var) for index, axis in zip(indices, axes, strict=False)
        )
        rest = indices[count:] if leads else indices
        if any(buffer.same_as(other) for other in own) and not leads:
            return False
        if any(not isinstance(index, tvm.ir.Var) and uses([index], axis) for index in rest for axis in axes):
            return False
        if rest and any(uses([rest[-1]], axis) for axis in axes):
            return False
    # The contraction operand that provides the vectors must be the same for all rows.
    reduction = contraction(block)
    return reduction is None or any(not any(uses(load.indices, axis) for axis in axes) for load in reduction.operands)


def _has_fixed_rows(nests: Sequence[_Nest], count: int) -> bool:
    """Whether a contraction has a static leading axis with enough rows for a tile."""
    return any(
        contraction(nest.block) is not None
        and any(not is_dynamic(axis) and int(axis.dom.extent) >= ENOUGH_ROWS for axis in nest.block.iter_vars[:count])
        for nest in nests
    )


def _separate_result(nest: _Nest, own: list[Any]) -> list[_Nest]:
    """Split a reduction into one with an internal result, added to ``own``, and a copy to its argument."""
    block, store = nest.block, nest.block.body
    if block.init is None or any(store.buffer.same_as(buffer) for buffer in own):
        return [nest]
    result = tirx.decl_buffer(list(store.buffer.shape), store.buffer.dtype, f"{store.buffer.name}_sum", layout=None)
    own.append(result)

    def exchange(node: Any) -> Any:
        return tirx.BufferLoad(result, node.indices) if node.source.same_as(store.buffer) else node

    def write(statement: Any) -> Any:
        return tirx.BufferStore(
            result, tvm_ffi.structural_map(statement.value, (tvm.ir.TensorLoad, exchange)), store.indices
        )

    writes = [tirx.BufferRegion(result, region.region) for region in block.writes]
    summed = s_tir.SBlock(
        block.iter_vars, block.reads, writes, block.name_hint, write(store), write(block.init),
        block.alloc_buffers, block.match_buffers, block.annotations,
    )  # fmt: skip
    spatial = [position for position, axis in enumerate(block.iter_vars) if axis.iter_type == SPATIAL]
    variables = {block.iter_vars[position].var: _copy_variable(block.iter_vars[position].var) for position in spatial}
    loops = [nest.loops[position] for position in spatial]
    counters = [_copy_variable(loop.loop_var) for loop in loops]

    def rename(node: Any) -> Any:
        return tvm_ffi.structural_map(node, (tvm.ir.Var, lambda variable: variables.get(variable, variable)))

    indices = list(map(rename, store.indices))
    axes = [
        tirx.IterVar(block.iter_vars[position].dom, variables[block.iter_vars[position].var], SPATIAL)
        for position in spatial
    ]
    region = [tvm.ir.Range.from_min_extent(rename(part.min), part.extent) for part in block.writes[0].region]
    copied = s_tir.SBlock(
        axes, [tirx.BufferRegion(result, region)], [tirx.BufferRegion(store.buffer, region)], f"{block.name_hint}_copy",
        tirx.BufferStore(store.buffer, tirx.BufferLoad(result, indices), indices), None,
    )  # fmt: skip
    copies = [
        tirx.For(counter, loop.min, loop.extent, loop.kind, loop.body)
        for counter, loop in zip(counters, loops, strict=True)
    ]
    return [
        _Nest(None, nest.loops, s_tir.SBlockRealize(nest.realize.iter_values, nest.realize.predicate, summed)),
        _Nest(None, copies, s_tir.SBlockRealize(counters, nest.realize.predicate, copied)),
    ]


def _copy_variable(variable: Any) -> Any:
    return tirx.Var(f"{variable.name}_copy", variable.ty.dtype)


class _RowFlattener:
    """Rewrites a kernel's blocks with one axis for several."""

    def __init__(self, extents: Sequence[Any], own: Sequence[Any]):
        """
        Args:
            own: the kernel's internal buffers; their dimensions are merged, too.
        """
        self.extents = extents
        self.rows = tvm.sym.Analyzer().simplify(reduce(lambda product, extent: product * extent, extents))
        self.buffers = {
            buffer: tirx.decl_buffer(
                [self.rows, *buffer.shape[len(extents) :]], buffer.dtype, buffer.name, scope=buffer.scope(), layout=None
            )
            for buffer in own
        }

    def nest(self, nest: _Nest) -> Any:
        """Replace the first axes of a block and its loops by one."""
        block, count = nest.block, len(self.extents)
        dtype = nest.loops[0].loop_var.ty.dtype
        row, loop = tirx.Var("row", dtype), tirx.Var("i", dtype)
        positions: list[Any] = []
        rest: Any = row
        for extent in reversed(self.extents[1:]):
            positions.insert(0, tirx.floormod(rest, extent))
            rest = tirx.floordiv(rest, extent)
        values = dict(zip((axis.var for axis in block.iter_vars[:count]), [rest, *positions], strict=True))

        def substitute(node: Any) -> Any:
            return tvm_ffi.structural_map(node, (tvm.ir.Var, lambda variable: values.get(variable, variable)))

        def flatten_load(load: Any) -> Any:
            if load.source not in self.buffers:
                return load
            return tirx.BufferLoad(self.buffers[load.source], [row, *load.indices[count:]])

        def flatten_store(store: Any) -> Any:
            value = substitute(tvm_ffi.structural_map(store.value, (tvm.ir.TensorLoad, flatten_load)))
            if store.buffer in self.buffers:
                return tirx.BufferStore(
                    self.buffers[store.buffer], value, [row, *map(substitute, store.indices[count:])]
                )
            return tirx.BufferStore(store.buffer, value, list(map(substitute, store.indices)))

        def flatten_region(region: Any) -> Any:
            ranges = [tvm.ir.Range.from_min_extent(substitute(part.min), part.extent) for part in region.region]
            if region.source not in self.buffers:
                return tirx.BufferRegion(region.source, ranges)
            own = tvm.ir.Range.from_min_extent(row, tirx.const(1, dtype))
            return tirx.BufferRegion(self.buffers[region.source], [own, *ranges[count:]])

        zero = tirx.const(0, dtype)
        axis = tirx.IterVar(tvm.ir.Range(zero, self.rows), row, SPATIAL)
        flat = s_tir.SBlock(
            [axis, *block.iter_vars[count:]], list(map(flatten_region, block.reads)), list(map(flatten_region, block.writes)),
            block.name_hint, flatten_store(block.body), flatten_store(block.init) if block.init is not None else None,
            block.alloc_buffers, block.match_buffers, block.annotations,
        )  # fmt: skip
        body: Any = s_tir.SBlockRealize([loop, *nest.realize.iter_values[count:]], nest.realize.predicate, flat)
        for inner in reversed(nest.loops[count:]):
            body = tirx.For(inner.loop_var, inner.min, inner.extent, inner.kind, body, annotations=inner.annotations)
        return tirx.For(loop, zero, self.rows, tirx.ForKind.SERIAL, body)
