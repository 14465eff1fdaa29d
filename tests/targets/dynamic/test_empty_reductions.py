"""Sums over a dynamic dimension of 0 are 0, on CPUs."""

from typing import Any

import numpy as np
import tvm

from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.config.target import TargetConfig
from tvmake.targets.resolve import tvm_target

from tvm import relax  # isort: skip


def sums() -> "tvm.IRModule":
    """Sums of a matrix's rows, and a matmul over the same dimension."""
    length = tvm.tirx.Var("length", "int64")
    x = relax.Var("x", relax.TensorType([3, length], "float32"))
    y = relax.Var("y", relax.TensorType([length, 4], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            of_rows = builder.emit_output(relax.op.sum(x, 1, keepdims=True))
            matmul = builder.emit_output(relax.op.matmul(x, y))
        builder.emit_func_output(relax.Tuple([of_rows, matmul]))
    return builder.get()


def computed_of_nothing(executable: Any) -> list[np.ndarray]:
    """The results for a length of 0, in memory that contained results for another length."""
    machine = relax.VirtualMachine(executable, tvm.cpu())
    results: Any = None
    for length in (5, 0):
        given = [tvm.runtime.tensor(np.ones(shape, np.float32)) for shape in ((3, length), (length, 4))]
        results = [each.numpy() for each in machine["main"](*given)]
    return results


def test_a_sum_of_no_elements_is_zero():
    target = tvm_target(TargetConfig(kind="llvm"), "targets.t")
    final = lower(sums(), target, [], PassOptions(), 2).final
    for result in computed_of_nothing(tvm.relax.build(final, target, relax_pipeline=None)):
        assert not result.any()
