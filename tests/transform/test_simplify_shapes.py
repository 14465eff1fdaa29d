"""Concatenations of dynamic dimensions, whose inferred shapes differ in form from those of their kernels."""

import pytest
import tvm
from onnx import helper

from tests.frontend.onnx.models import FLOAT, model, random, read, save
from tvmake.codegen import lowering
from tvmake.codegen.options import PassOptions
from tvmake.config.target import TargetConfig
from tvmake.quantize.precision import PrecisionConfig
from tvmake.targets.resolve import tvm_target
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest
from tvmake.transform.simplify_shapes import simplify_shapes

from tvm import relax  # isort: skip

node = helper.make_node


@pytest.fixture
def network(tmp_path) -> "tvm.IRModule":
    """Operators fused after a concatenation of 3 * n + 2 columns."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1, 2], kernel_shape=[3]), node("Concat", ["c", "c", "x"], ["j"], axis=2),
        node("Conv", ["j", "v"], ["y"], pads=[2, 2], kernel_shape=[1], strides=[2]),
    ]  # fmt: skip
    made = model(nodes, {"x": (FLOAT, ["b", 4, "n"])}, ["y"], {"w": random(4, 4, 3), "v": random(6, 4, 1)})
    return read(save(tmp_path / "m.onnx", made)).module


def lower(module: "tvm.IRModule") -> None:
    """Lower a network like a package."""
    target = tvm_target(TargetConfig(kind="llvm"), "targets.t")
    module, _ = transform(module, {}, TransformRequest(precision=PrecisionConfig(base="float32")))
    lowering.lower(module, target, [], PassOptions(), 1)


def test_without_the_pass_the_network_cannot_be_lowered(network, monkeypatch):
    monkeypatch.setattr(lowering, "simplify_shapes", lambda module: module)
    with pytest.raises(tvm.error.InternalError, match="ill-formed"):
        lower(network)


def test_shapes_have_the_form_that_kernels_write(network):
    lower(network)


def test_networks_of_fixed_shapes_stay_unchanged(network):
    fixed = relax.transform.BindSymbolicVars({"b": 1, "n": 3})(network)
    assert simplify_shapes(fixed).same_as(fixed)
