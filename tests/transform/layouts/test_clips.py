"""Clips become layout-independent operators with the same values before a layout is changed."""

import numpy as np
import pytest
import tvm
from tvm import relax

from tvmake.transform.layouts.choices import LAYOUTS
from tvmake.transform.layouts.clips import split_clips

TARGET = tvm.target.Target("llvm")
EDGES = np.array([[-np.inf, -1.0, -0.0, 0.0, 0.5, 6.0, 7.0, np.inf, np.nan]], "float32")


def conv_then_clip() -> tvm.IRModule:
    """A convolution followed by a ReLU6."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 3, 8, 8), "float32"))
    w = relax.Var("w", relax.TensorType((4, 3, 3, 3), "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.clip(builder.emit(relax.op.nn.conv2d(x, w)), 0, 6))
        builder.emit_func_output(out)
    return builder.get()


def clip_of(dtype: str, low: float, high: float) -> tvm.IRModule:
    """A clip alone."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 9), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.clip(x, low, high))
        builder.emit_func_output(out)
    return builder.get()


def transposes(module: tvm.IRModule) -> int:
    """Number of transposes that a change of layout inserts."""
    converted = relax.transform.ConvertLayout(LAYOUTS["NHWC"])(module)
    found: list[object] = []

    def visit(node: object) -> None:
        if isinstance(node, relax.Call) and node.op == tvm.ir.Op.get("relax.permute_dims"):
            found.append(node)

    relax.analysis.post_order_visit(converted["main"], visit)
    return len(found)


def computed(module: tvm.IRModule, value: np.ndarray) -> np.ndarray:
    """Run a module."""
    built = relax.build(module, TARGET)
    return relax.VirtualMachine(built, tvm.cpu())["main"](tvm.runtime.tensor(value)).numpy()


def operators(module: tvm.IRModule) -> set[str]:
    """The operators in ``main``."""
    found: set[str] = set()

    def visit(node: object) -> None:
        if isinstance(node, relax.Call) and isinstance(node.op, tvm.ir.Op):
            found.add(node.op.name)

    relax.analysis.post_order_visit(module["main"], visit)
    return found


def test_a_clip_takes_the_layout_of_the_convolution_before_it():
    # Of the image, the weights, and the result.
    assert transposes(split_clips(conv_then_clip())) == 3


@pytest.mark.parametrize("bounds", [(0.0, 6.0), (-1.0, 1.0), (2.0, 1.0)])
def test_the_values_are_those_of_clip(bounds: tuple[float, float]):
    module = clip_of("float32", *bounds)
    split = split_clips(module)
    assert "relax.clip" not in operators(split)
    np.testing.assert_array_equal(computed(split, EDGES), computed(module, EDGES))


def test_integer_clips_stay():
    module = clip_of("int32", 0, 6)
    assert operators(split_clips(module)) == {"relax.clip"}
