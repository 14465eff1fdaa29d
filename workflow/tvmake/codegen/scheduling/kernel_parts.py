"""Analyse a kernel's statements: their operations, and whether a schedule vectorises or parallelises them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi

from tvmake.codegen.dynamic_sizes import evaluate_extent
from tvmake.codegen.kernel_analysis import REDUCTION
from tvmake.ir.expressions import is_call

ARITHMETIC = (
    tvm.tirx.Add, tvm.tirx.Sub, tvm.tirx.Mul, tvm.tirx.Div, tvm.tirx.Max, tvm.tirx.Min, tvm.tirx.Select, tvm.ir.Call,
)  # fmt: skip

RUNTIME_CALLS = ("tirx.tvm_call_packed", "tirx.tvm_call_cpacked", "tirx.call_extern")
"""Calls of functions in TVM's runtime."""

SERIAL, THREAD = tvm.tirx.ForKind.SERIAL, tvm.tirx.ForKind.THREAD_BINDING


@dataclass(frozen=True)
class KernelPart:
    """A statement of a kernel."""

    name: str
    """Its block, its buffer if it is in no block, or the function of TVM's runtime that it calls."""
    operations: int
    """Operations of all its iterations."""
    reduction_length: int
    """Number of values that its block reduces to each result; 0 without a reduction."""
    is_in_threads: bool
    """Whether surrounding loops are bound to a GPU's threads."""
    is_plain: bool
    """Whether all other surrounding loops are unscheduled: none is vectorised, parallel or unrolled."""
    calls_runtime: bool = False


def kernel_parts(function: "tvm.tirx.PrimFunc", sizes: Mapping[str, int]) -> list[KernelPart]:
    """The statements of a kernel that compute, without initial values.

    Args:
        sizes: representative sizes of its dynamic dimensions.
    """
    parts: list[KernelPart] = []
    elements = max((_elements(parameter, sizes) for parameter in function.params), default=1)

    def visit(node: Any, loops: list[Any], block: Any, points: int) -> None:
        def enter_loop(loop: Any) -> Any:
            visit(loop.body, [*loops, loop], block, points * evaluate_extent(loop.extent, sizes))
            return tvm_ffi.WalkResult.SKIP

        def enter_block(realize: Any) -> Any:
            inner = realize.block
            if inner.iter_vars and block is None:
                axes = [evaluate_extent(axis.dom.extent, sizes) for axis in inner.iter_vars]
                visit(inner.body, loops, inner, math.prod(axes))
            else:
                visit(inner.body, loops, block, points)
            return tvm_ffi.WalkResult.SKIP

        def note(name: str, operations: int, calls_runtime: bool) -> None:
            length = _reduction_length(block, sizes) if block is not None else 0
            is_plain = not any(_is_scheduled(loop, sizes) for loop in loops)
            is_in_threads = any(loop.kind == THREAD for loop in loops)
            name = name if block is None or calls_runtime else str(block.name_hint)
            parts.append(KernelPart(name, operations, length, is_in_threads, is_plain, calls_runtime))

        def note_store(store: Any) -> None:
            note(str(store.buffer.name), points * _operations(store.value), False)

        def note_call(statement: Any) -> None:
            if is_call(statement.value, *RUNTIME_CALLS):
                note(str(statement.value.args[0].value), points * elements, True)

        tvm_ffi.structural_walk(
            node,
            [
                (tvm.tirx.For, enter_loop),
                (tvm.s_tir.SBlockRealize, enter_block),
                (tvm.tirx.BufferStore, note_store),
                (tvm.tirx.Evaluate, note_call),
            ],
            order="pre",
        )

    visit(function.body, [], None, 1)
    return parts


def _is_scheduled(loop: Any, sizes: Mapping[str, int]) -> bool:
    """Whether a loop with more than one iteration is vectorised, unrolled, or parallel."""
    has_schedule = loop.kind not in (SERIAL, THREAD) or bool(loop.annotations)
    return has_schedule and evaluate_extent(loop.extent, sizes) > 1


def _operations(value: Any) -> int:
    """Arithmetic operations for one value; 1 if it is only moved."""
    nodes: list[Any] = []
    tvm_ffi.structural_walk(value, [(kind, nodes.append) for kind in ARITHMETIC])
    return max(1, len(nodes))


def _reduction_length(block: Any, sizes: Mapping[str, int]) -> int:
    axes = [evaluate_extent(axis.dom.extent, sizes) for axis in block.iter_vars if axis.iter_type == REDUCTION]
    return math.prod(axes) if axes else 0


def _elements(parameter: Any, sizes: Mapping[str, int]) -> int:
    return math.prod(evaluate_extent(extent, sizes) for extent in getattr(parameter.ty, "shape", None) or ())
