"""Complete scheduled kernels with dynamic dimensions: no launch of empty grids, and the same condition for a whole vector.

A launch of no work groups runs one (Repair: `empty-launches`), whose accesses are out of bounds. TVM simplifies a
condition with all loops around it only after it has made loops of vectors whose elements may differ in the condition.
"""

from functools import reduce
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.dimensions import dynamic_dimensions, is_known
from tvmake.ir.rewriting import with_functions

from tvm import s_tir, tirx  # isort: skip

THREAD = tirx.ForKind.THREAD_BINDING


def complete_launches(module: "tvm.IRModule") -> "tvm.IRModule":
    """Skip empty launches, and simplify the conditions of blocks. For scheduled kernels."""
    kernels = {
        variable: complete_kernel(function)
        for variable, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc)
        and isinstance(function.body, s_tir.SBlockRealize)
        and dynamic_dimensions(function)
    }
    return with_functions(module, kernels) if kernels else module


def complete_kernel(kernel: Any) -> Any:
    """A kernel with these changes."""
    root = kernel.body.block
    body = _simplify_conditions(_skip_empty(root.body), tvm.sym.Analyzer())
    block = s_tir.SBlock(
        root.iter_vars, root.reads, root.writes, root.name_hint, body, root.init, root.alloc_buffers,
        root.match_buffers, root.annotations,
    )  # fmt: skip
    return kernel.with_body(s_tir.SBlockRealize(kernel.body.iter_values, kernel.body.predicate, block))


def run_if(condition: Any, statement: Any) -> Any:
    """Run a statement of the host under a condition, as a loop of no or one iteration.

    Repair: `barriers-in-host-conditions`.
    """
    count = tirx.Cast("int32", condition)
    return tirx.For(tirx.Var("run", "int32"), tirx.const(0, "int32"), count, tirx.ForKind.SERIAL, statement)


def _skip_empty(statement: Any) -> Any:
    """Run the launches within a statement of the host only if their dynamic extents are positive."""
    if isinstance(statement, tirx.SeqStmt):
        return tirx.SeqStmt([_skip_empty(part) for part in statement.seq])
    if not isinstance(statement, tirx.For):
        return statement
    if statement.kind != THREAD:
        return _with_body(statement, _skip_empty(statement.body))
    extents: list[Any] = []
    tvm_ffi.structural_walk(
        statement, (tirx.For, lambda loop: extents.append(loop.extent) if loop.kind == THREAD else None)
    )
    dynamic = [extent for extent in extents if not is_known(extent)]
    if not dynamic:
        return statement
    return run_if(reduce(tirx.And, [extent > tirx.const(0, extent.ty.dtype) for extent in dynamic]), statement)


def _simplify_conditions(statement: Any, analyzer: Any) -> Any:
    """Simplify the conditions of blocks with the ranges of the loops around them."""
    if isinstance(statement, tirx.SeqStmt):
        return tirx.SeqStmt([_simplify_conditions(part, analyzer) for part in statement.seq])
    if isinstance(statement, tirx.For):
        analyzer.bind(statement.loop_var, tvm.ir.Range.from_min_extent(statement.min, statement.extent))
        return _with_body(statement, _simplify_conditions(statement.body, analyzer))
    if not isinstance(statement, s_tir.SBlockRealize):
        return statement
    block = statement.block
    inner = s_tir.SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, _simplify_conditions(block.body, analyzer),
        block.init, block.alloc_buffers, block.match_buffers, block.annotations,
    )  # fmt: skip
    condition = statement.predicate
    exchanged = tvm_ffi.structural_map(condition, (tirx.LT, _without_division))
    if not tvm_ffi.structural_equal(condition, exchanged):
        condition = analyzer.simplify(exchanged)
    return s_tir.SBlockRealize(statement.iter_values, condition, inner)


def _without_division(comparison: Any) -> Any:
    """``index < images * 196`` instead of ``index // 196 < images``, from which TVM can divide a vector's width."""
    quotient = comparison.a
    is_division = isinstance(quotient, tirx.FloorDiv) and is_known(quotient.b) and int(quotient.b) > 0
    return quotient.a < comparison.b * quotient.b if is_division else comparison


def _with_body(loop: Any, body: Any) -> Any:
    return tirx.For(
        loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, loop.annotations, loop.step
    )
