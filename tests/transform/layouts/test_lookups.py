"""Lookups along an axis of a dynamic feature map keep the layout of the convolution before them."""

import numpy as np
import tvm
from tvm import relax

from tests.unoptimised import unoptimised_machine
from tvmake.ir.expressions import is_call
from tvmake.targets.cpu.channels_last import channels_last


def convolution(x: relax.Expr) -> relax.Expr:
    return relax.op.nn.conv2d(x, relax.const(np.ones((3, 3, 3, 3), "float32")), padding=1)


def module_of(is_looked_up: bool, height: int | tvm.tirx.Var) -> tvm.IRModule:
    """Two convolutions; between them rows are taken in reverse, and columns twice."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 3, height, 5), "float32"))
    rows, columns = relax.Var("rows", relax.TensorType([height], "int64")), relax.const(np.repeat(np.arange(5), 2))
    with builder.function("main", [x, rows]):
        with builder.dataflow():
            value = builder.emit(convolution(x))
            if is_looked_up:
                value = builder.emit(relax.op.take(value, rows, axis=2))
                value = builder.emit(relax.op.take(value, columns, axis=3))
            out = builder.emit_output(convolution(value))
        builder.emit_func_output(out)
    return builder.get()


def test_they_keep_the_layout_of_a_dynamic_feature_map():
    module = channels_last(module_of(True, tvm.tirx.Var("h", "int64")))
    axes: list[int] = []

    def visit(node: object) -> None:
        if is_call(node, "take"):
            axes.append(int(node.attrs.axis))  # type: ignore[attr-defined]

    relax.analysis.post_order_visit(module["main"], visit)
    assert axes == [1, 2]


def test_values_stay_the_same():
    module = module_of(True, tvm.tirx.Var("h", "int64"))
    data, rows = np.sin(np.arange(60, dtype="float32")).reshape(1, 3, 4, 5), np.arange(4)[::-1].copy()
    results = [
        unoptimised_machine(each)["main"](tvm.runtime.tensor(data), tvm.runtime.tensor(rows)).numpy()
        for each in (module, channels_last(module))
    ]
    np.testing.assert_allclose(*results, rtol=1e-5)
