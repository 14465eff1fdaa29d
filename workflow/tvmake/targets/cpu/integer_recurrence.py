"""Write the kernels of LSTMs with 8-bit weights with a CPU's dot-product instruction.

The import writes them without one (:mod:`tvmake.frontend.lowering.recurrent_integer_kernel`).
"""

from typing import Any

import tvm

from tvmake.frontend.lowering.integer_matmul import Dot
from tvmake.frontend.lowering.recurrent_integer_kernel import (
    LAYER,
    integer_projection_kernel,
    integer_recurrence_kernel,
)
from tvmake.frontend.lowering.recurrent_kernel import LANES, Recurrence
from tvmake.ir.expressions import extents, is_call
from tvmake.ir.rewriting import rewrite_calls
from tvmake.targets.cpu.schedules.machine import Machine, machine

from tvm import relax, tirx  # isort: skip

WEIGHTS = 1
"""The index of the weights among the arguments of a kernel."""

INPUT_RANK = 3
"""The rank of a layer's input, the first argument of the kernel for the input's part of the gates."""


def legalize_recurrence(module: "tvm.IRModule", target: "tvm.target.Target") -> "tvm.IRModule":
    """Rewrite the kernels for a target's instruction; unchanged if it has none."""
    kernels = {variable for variable, function in module.functions_items() if LAYER in (function.attrs or {})}
    dot = processor_dot(machine(target)) if kernels else None
    if dot is None:
        return module

    def rewrite(mutator: Any, _before: Any, call: Any) -> Any:
        if not is_call(call, "call_tir") or call.args[0] not in kernels:
            return call
        emit, op = mutator.builder_.emit, relax.op
        kernel = module[call.args[0]]
        layer = Recurrence.from_text(str(kernel.attrs[LAYER]))
        arguments = list(call.args[1].fields)
        directions, blocks, units, gates, lanes = map(int, extents(arguments[WEIGHTS]))
        weights = arguments[WEIGHTS]
        if units % dot.group:
            weights = emit(op.nn.pad(weights, [0, 0, 0, 0, 0, -units % dot.group, 0, 0, 0, 0]))
        groups = -(-units // dot.group)
        weights = emit(op.reshape(weights, (directions, blocks, groups, dot.group, gates, lanes)))
        weights = emit(op.permute_dims(weights, [0, 1, 2, 4, 5, 3]))
        arguments[WEIGHTS] = emit(op.reshape(weights, (directions, blocks, groups, gates, lanes * dot.group)))
        first = [_extent(extent) for extent in kernel.params[0].ty.shape]
        if len(first) == INPUT_RANK:
            written = integer_projection_kernel(layer, first[0], first[1], units, dot)
        else:
            length, _, _, batch, _, _ = first
            written = integer_recurrence_kernel(layer, length, batch, dot)
        results = call.ty_args[0]
        results = list(results.fields) if isinstance(results, relax.TupleType) else results
        return relax.call_tir(mutator.builder_.add_func(written, call.args[0].name_hint), arguments, results)

    return relax.transform.DeadCodeElimination()(rewrite_calls(module, rewrite))


def processor_dot(processor: Machine) -> Dot | None:
    """The instruction of a processor, in the form that kernels take; None if it has none."""
    dot = next((dot for dot in processor.dots if dot.lanes <= LANES), None)
    if dot is None:
        return None
    number = int(tvm.target.codegen.llvm_lookup_intrinsic_id(dot.llvm))
    wide, sums = f"int16x{dot.group * dot.lanes}", f"int32x{dot.lanes}"

    def add(before: Any, state: Any, weights: Any) -> Any:
        if dot.group == 4:
            return tirx.call_llvm_pure_intrin(sums, number, before, state, weights)
        weights = tirx.Cast(wide, weights)
        operands = (state, weights) if dot.multiplies else (state * weights,)
        return before + tirx.call_llvm_pure_intrin(sums, number, *operands)

    # Sums of pairs take the difference to the zero point, which has 9 bits.
    state: Any = dot.data[0] if dot.group == 4 else "int16"
    return Dot(dot.lanes, dot.group, state, add, processor.accumulators)


def _extent(extent: Any) -> Any:
    return int(extent) if isinstance(extent, tirx.IntImm) else tirx.Var(str(extent.name), "int64")
