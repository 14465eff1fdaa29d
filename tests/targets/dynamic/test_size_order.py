"""Data-dependent lengths, and kernels that use several of them."""

from typing import Any

import numpy as np
import pytest
import tvm

from tests.targets.cpu.schedules.nets import NATIVE
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.targets.dynamic.size_order import order_sizes

from tvm import relax  # isort: skip

op = relax.op


def two_ranges() -> "tvm.IRModule":
    """A table of i + 10 j; two inputs define the ranges."""
    builder = relax.BlockBuilder()
    counts = [relax.Var(name, relax.TensorType([1], "int64")) for name in ("rows", "columns")]
    with builder.function("main", counts):
        with builder.dataflow():
            ranges = []
            for count in counts:
                length = tvm.tirx.Var(f"length_of_{count.name}", "int64")
                shape = builder.emit(op.tensor_to_shape(builder.emit(op.abs(count))))
                builder.match_cast(shape, relax.ShapeType([length]))
                ranges.append(builder.emit(op.astype(op.arange(0, length, 1, "int64"), "float32")))
            tens = builder.emit(op.expand_dims(op.multiply(ranges[1], relax.const(10.0)), 1))
            result = builder.emit_output(op.add(tens, ranges[0]))
        builder.emit_func_output(result)
    return relax.transform.DecomposeOpsForInference()(builder.get())


def fused() -> "tvm.IRModule":
    passes = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps()]
    return tvm.transform.Sequential(passes)(two_ranges())


def positions(module: "tvm.IRModule") -> tuple[int, int]:
    """The positions at which the last length becomes known, and at which the last kernel is called."""
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    lengths = [position for position, binding in enumerate(bindings) if isinstance(binding, relax.MatchCast)]
    calls = [position for position, binding in enumerate(bindings) if isinstance(binding.value, relax.Call)]
    return lengths[-1], max(position for position in calls if isinstance(bindings[position].value.op, tvm.ir.GlobalVar))


def test_a_size_is_known_before_its_kernel():
    length, kernel = positions(fused())
    assert kernel < length
    length, kernel = positions(order_sizes(fused()))
    assert kernel > length


def test_what_is_in_order_stays_unchanged():
    module = order_sizes(fused())
    assert order_sizes(module).same_as(module)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (17, 2)])
def test_a_table_of_two_computed_lengths(rows: int, columns: int):
    executable = generate(lower(two_ranges(), NATIVE, [], PassOptions(), 2).final, NATIVE, BuildOptions(), "targets.t")
    machine = relax.VirtualMachine(executable, tvm.cpu())
    found: Any = machine["main"](*(tvm.runtime.tensor(np.array([count])) for count in (rows, columns)))
    np.testing.assert_array_equal(found.numpy(), np.arange(rows) + 10 * np.arange(columns)[:, None])
