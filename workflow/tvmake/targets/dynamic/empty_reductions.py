"""Give reductions over a dynamic dimension of 0 their initial value.

Repair: `empty-reductions`.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.rewriting import with_functions


@tvm.transform.module_pass(opt_level=0, name="InitializeEmptyReductions")
def initialize_empty_reductions(module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
    """Store the initial values of reductions over dynamic dimensions before their loops. For scheduled CPU kernels."""
    kernels = {
        variable: _with_initial_values(function)
        for variable, function in module.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc) and _dynamic_reductions(function)
    }
    return with_functions(module, kernels) if kernels else module


def _dynamic_reductions(kernel: Any) -> Mapping[str, set[Any]]:
    """A kernel's blocks that start a reduction over a dynamic dimension, by name, with the variables of its loops."""
    variables: dict[str, set[Any]] = {}

    def visit(realize: Any) -> None:
        block = realize.block
        axes = [
            (axis.dom.extent, value)
            for axis, value in zip(block.iter_vars, realize.iter_values, strict=True)
            if axis.iter_type == tvm.tirx.IterVar.CommReduce
        ]
        if block.init is not None and not all(isinstance(extent, tvm.tirx.IntImm) for extent, _ in axes):
            variables[str(block.name_hint)] = {
                variable for _, value in axes for variable in tvm.tirx.analysis.undefined_vars(value)
            }

    tvm_ffi.structural_walk(kernel.body, (tvm.s_tir.SBlockRealize, visit))
    return variables


def _with_initial_values(kernel: Any) -> Any:
    schedule = tvm.s_tir.Schedule(kernel)
    for name, variables in _dynamic_reductions(kernel).items():
        block = schedule.get_sblock(name)
        loops = [loop for loop in schedule.get_loops(block) if schedule.get(loop).loop_var in variables]
        if loops:
            with suppress(tvm.s_tir.ScheduleError):  # a rule put other loops between the loops of the reduction
                schedule.decompose_reduction(block, loops[0])
    return schedule.mod["main"].with_attrs(kernel.attrs)
