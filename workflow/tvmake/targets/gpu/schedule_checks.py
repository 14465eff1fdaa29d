"""Check GPU schedules: no part on the host, no epilogue computed twice, no reads of other threads' registers."""

from typing import Any

import tvm
import tvm_ffi

THREAD = tvm.tirx.ForKind.THREAD_BINDING


def is_bound(func: Any) -> bool:
    """Whether a kernel stores nothing outside threads, and each launch has one extent for each thread axis.

    Repair: `dlight-thread-extents`.
    """
    outside: list[Any] = []
    callbacks = [
        (tvm.tirx.For, lambda loop: tvm_ffi.WalkResult.SKIP if loop.kind == THREAD else None),
        (tvm.tirx.AttrStmt, lambda attribute: tvm_ffi.WalkResult.SKIP if is_launch(attribute) else None),
        (tvm.tirx.BufferStore, outside.append),
    ]
    tvm_ffi.structural_walk(func.body, callbacks, order="pre")
    return not outside and all(map(_has_one_extent, _outermost_threads(func)))


def is_launch(attribute: Any) -> bool:
    """Whether an attribute launches threads, as in kernels with their own threads."""
    return str(attribute.attr_key) == "thread_extent"


def _outermost_threads(func: Any) -> list[Any]:
    """The outermost loops over threads; each is a launch."""
    launches: list[Any] = []

    def enter(loop: Any) -> Any:
        if loop.kind != THREAD:
            return None
        launches.append(loop)
        return tvm_ffi.WalkResult.SKIP

    tvm_ffi.structural_walk(func.body, (tvm.tirx.For, enter), order="pre")
    return launches


def computes_epilogue(func: Any) -> bool:
    """Whether the reduction of a single element also computes its epilogue.

    Repair: `dlight-epilogue-twice`.
    """
    launches: list[bool] = []

    def enter(block: Any) -> None:
        if block.init is not None and all(_is_unreduced(axis) for axis in block.iter_vars):
            launches.append(not _is_plain_sum(block))

    tvm_ffi.structural_walk(func.body, (tvm.s_tir.SBlock, enter))
    return any(launches)


def _is_unreduced(axis: Any) -> bool:
    """Whether an axis does not reduce more than one element."""
    extent = axis.dom.extent
    return axis.iter_type != tvm.tirx.IterVar.CommReduce or (isinstance(extent, tvm.tirx.IntImm) and int(extent) == 1)


def _is_plain_sum(block: Any) -> bool:
    """Whether a block only adds to, or compares with, its initial value."""
    start, store = block.init, block.body
    if not isinstance(start, tvm.tirx.BufferStore) or not isinstance(store, tvm.tirx.BufferStore):
        return False
    neutral = (tvm.tirx.FloatImm, tvm.tirx.IntImm)
    if not isinstance(store.value, (tvm.tirx.Add, tvm.tirx.Max, tvm.tirx.Min)) or not isinstance(start.value, neutral):
        return False
    is_own = [
        isinstance(side, tvm.ir.expr.TensorLoad) and side.source.same_as(store.buffer)
        for side in (store.value.a, store.value.b)
    ]
    return any(is_own) and not (isinstance(store.value, tvm.tirx.Add) and start.value.value)


def reads_of_other_threads(func: Any) -> bool:
    """Whether a thread reads values in another thread's registers.

    dlight's rule for reductions divides the results among threads differently from its epilogue, if the reduction reads
    along a divided axis, as a grouped convolution does. This compares the indices at which each thread starts.
    Repair: `dlight-sums-of-other-threads`.
    """
    return any(map(_has_reads_of_other_threads, _outermost_threads(func)))


def _has_reads_of_other_threads(launch: Any) -> bool:
    accesses: dict[Any, list[list[Any]]] = {}
    threads: dict[str, Any] = {}
    analyzer = tvm.sym.Analyzer()

    def visit(statement: Any, values: dict[Any, Any]) -> None:
        def substitute(expression: Any) -> Any:
            return tvm_ffi.structural_map(expression, (tvm.ir.Var, lambda variable: values.get(variable, variable)))

        def enter_loop(loop: Any) -> None:
            values[loop.loop_var] = loop.min
            if loop.kind == THREAD:
                values[loop.loop_var] = threads.setdefault(str(loop.thread_binding.thread_tag), loop.loop_var)
                analyzer.bind(loop.loop_var, tvm.ir.Range.from_min_extent(loop.min, loop.extent))

        def enter_block(realize: Any) -> Any:
            block = realize.block
            axes = zip(block.iter_vars, realize.iter_values, strict=True)
            inside = values | {axis.var: substitute(value) for axis, value in axes}
            for part in (block.init, block.body):
                if part is not None:
                    visit(part, inside)
            return tvm_ffi.WalkResult.SKIP

        def access(buffer: Any, indices: Any) -> None:
            if buffer.scope() == "local":
                accesses.setdefault(buffer, []).append([substitute(index) for index in indices])

        callbacks = [
            (tvm.tirx.For, enter_loop),
            (tvm.s_tir.SBlockRealize, enter_block),
            (tvm.tirx.BufferStore, lambda store: access(store.buffer, store.indices)),
            (tvm.ir.expr.TensorLoad, lambda load: access(load.source, load.indices)),
        ]
        tvm_ffi.structural_walk(statement, callbacks, order="pre")

    visit(launch, {})
    return any(
        not analyzer.can_prove_equal(index, other)
        for first, *others in accesses.values()
        for indices in others
        for index, other in zip(first, indices, strict=True)
    )


def _has_one_extent(launch: Any) -> bool:
    """Whether all loops over a thread axis have the same extent; otherwise TVM uses that of one of them."""
    extents: dict[str, set[str]] = {}

    def enter(loop: Any) -> None:
        if loop.kind == THREAD:
            extents.setdefault(str(loop.thread_binding.thread_tag), set()).add(str(loop.extent))

    tvm_ffi.structural_walk(launch, (tvm.tirx.For, enter))
    return all(len(launches) == 1 for launches in extents.values())
