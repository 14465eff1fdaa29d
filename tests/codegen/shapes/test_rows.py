"""Sizes that no function of a package has, computed in rows by functions for fixed sizes."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from tests.codegen.shapes.test_lowering import OPTIONS, Machine, expected, network
from tests.frontend.onnx import models
from tests.transform.nets import imported
from tests.unoptimised import UNCHECKED, UNOPTIMISED
from tvmake.codegen.link import generate
from tvmake.codegen.shapes.lowering import lower_shapes
from tvmake.targets.cpu.backend import CpuBackend
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest

import tvm  # isort: skip


@pytest.fixture(autouse=True)
def without_dynamic_code(monkeypatch: pytest.MonkeyPatch):
    """A CPU that needs fixed sizes, as textures do."""
    monkeypatch.setattr(CpuBackend, "needs_fixed_sizes", True)


def assert_right(machine: Machine, name: str, x: np.ndarray) -> None:
    for result, right in zip(machine.run(x), expected(name, x), strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-4)


def test_a_batch_is_padded_or_split_and_computes_what_the_network_does():
    module, weights = network("classifier")
    machine = Machine(lower_shapes(module, OPTIONS, [{"batch": 1}, {"batch": 8}]), weights)
    calls = {1: [1], 3: [1, 1, 1], 5: [8], 8: [8], 11: [8, 1, 1, 1], 15: [8, 8], 33: [8, 8, 8, 8, 1]}
    for batch, functions in calls.items():
        assert_right(machine, "classifier", models.random(batch, 3, 8, 8))
        called = [name for name in machine.functions if not name.endswith("padded")]
        assert called == [f"main_batch{size}" for size in functions]


def test_a_padded_call_is_made_for_the_functions_of_the_same_length():
    module, weights = network("encoder")
    shapes = [{"batch": 1, "length": 16}, {"batch": 4, "length": 16}, {"batch": 2, "length": 3}]
    machine = Machine(lower_shapes(module, OPTIONS, shapes), weights)
    for batch, length, function in ((3, 16, "main_batch4_length16"), (1, 3, "main_batch2_length3")):
        assert_right(machine, "encoder", models.random(batch, length, 32))
        assert machine.functions[-1] == function
    assert_right(machine, "encoder", models.random(7, 3, 32))


def test_rows_may_be_on_any_axis_and_other_inputs_are_shared():
    """``y = tanh(x · w) · a`` and its transposition, with the batch on the second axis of ``x``."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Tanh", ["m"], ["t"]),
        helper.make_node("MatMul", ["t", "a"], ["y"]),
        helper.make_node("Transpose", ["y"], ["z"], perm=[2, 1, 0]),
    ]
    inputs = {"x": (models.FLOAT, [5, "batch", 4]), "a": (models.FLOAT, [6, 3])}
    proto = models.model(nodes, inputs, ["y", "z"], {"w": models.random(4, 6)})
    model = imported(proto)
    module, weights = transform(model.module, model.params, TransformRequest())
    lowered = lower_shapes(module, replace(OPTIONS, inputs=2), [{"batch": 2}])
    assert lowered.row_ranges["main_batch2"].most is None
    machine = tvm.relax.VirtualMachine(generate(lowered.final, UNOPTIMISED, UNCHECKED, "targets.t"), tvm.cpu())
    for batch in (1, 2, 5):
        x, a = models.random(5, batch, 4), models.random(6, 3)
        results = machine["main"](*map(tvm.runtime.tensor, (x, a)), *weights.values())
        for result, right in zip(results, models.runtime(proto, [x, a]), strict=True):
            np.testing.assert_allclose(result.numpy(), right, rtol=1e-5, atol=1e-5)


def test_other_sizes_stay_refused_with_the_reason_if_rows_are_not_independent():
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=0)]
    model = imported(models.model(nodes, {"x": (models.FLOAT, ["batch", 8])}, ["y"], {}))
    module, _ = transform(model.module, model.params, TransformRequest())
    lowered = lower_shapes(module, OPTIONS, [{"batch": 1}, {"batch": 8}])
    assert not lowered.row_ranges
    assert lowered.why_refused == "rows of batch are not provably independent: `softmax` may read several rows"


def test_dynamic_code_computes_other_sizes_if_there_is_any(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(CpuBackend, "needs_fixed_sizes", False)
    lowered = lower_shapes(network("classifier")[0], OPTIONS, [{"batch": 1}, {"batch": 8}])
    assert (lowered.row_ranges, lowered.why_refused) == ({}, "")
    assert not any("rows" in str(name.name_hint) for name in lowered.final.get_global_vars())
