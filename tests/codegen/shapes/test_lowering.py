"""A network at several shapes: a function for each, over the same weights."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper

from tests.frontend.onnx import models
from tests.transform.nets import classifier, imported
from tests.unoptimised import UNCHECKED, UNOPTIMISED, unoptimised_machine
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import Applied, Lowered, LoweringOptions, lower_function
from tvmake.codegen.options import BuildOptions
from tvmake.codegen.shapes.lowering import fused_shapes, lower_shapes
from tvmake.codegen.weights import packed_weights
from tvmake.config.target import TargetConfig
from tvmake.errors import InputError
from tvmake.frontend.imported import ImportedModel
from tvmake.targets.backends import backend_of
from tvmake.targets.resolve import tvm_target
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "opt-level": 0})

OPTIONS = LoweringOptions(UNOPTIMISED, inputs=1, build=BuildOptions())


def encoder_onnx() -> ImportedModel:
    """matmul, add, tanh, matmul over ``[batch, length, 32]``; two results."""
    weights = {"w1": models.random(32, 96, seed=1), "b": models.random(96, seed=2), "w2": models.random(96, 32, seed=3)}
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Tanh", ["a"], ["t"]),
        helper.make_node("MatMul", ["t", "w2"], ["y"]),
        helper.make_node("ReduceMean", ["y"], ["z"], axes=[1], keepdims=0),
    ]
    shape = (models.FLOAT, ["batch", "length", 32])
    return imported(models.model(nodes, {"x": shape}, ["y", "z"], weights, opset=17))


@cache
def network(name: str):
    """A transformed network and its weights."""
    model = classifier("batch") if name == "classifier" else encoder_onnx()
    return transform(model.module, model.params, TransformRequest())


class Machine:
    """Runs a lowered network, and notes the functions that it calls."""

    def __init__(self, lowered: Lowered, weights: Mapping, target: "tvm.target.Target" = UNOPTIMISED):
        names = [str(weight.name) for weight in lowered.fused["main"].params[1:]]
        packed = packed_weights(weights, lowered.packings, names) if lowered.packings else weights
        self.weights = [packed[name] for name in names]
        self.bytes = sum(weight.numpy().nbytes for weight in self.weights)
        self.functions: list[str] = []
        self.machine = tvm.relax.VirtualMachine(generate(lowered.final, target, UNCHECKED, "targets.t"), tvm.cpu())
        self.machine.set_instrument(self._note)

    def _note(self, _function, name: str, is_before: bool, _result, *_arguments) -> None:
        if is_before and name.startswith("main"):
            self.functions.append(name)

    def run(self, x: np.ndarray) -> list[np.ndarray]:
        self.functions.clear()
        results = self.machine["main"](tvm.runtime.tensor(x), *self.weights)
        return [result.numpy() for result in ([results] if isinstance(results, tvm.runtime.Tensor) else results)]


def expected(name: str, x: np.ndarray) -> list[np.ndarray]:
    module, weights = network(name)
    values = [weights[str(weight.name)] for weight in module["main"].params[1:]]
    results = unoptimised_machine(module)["main"](tvm.runtime.tensor(x), *values)
    return [result.numpy() for result in ([results] if isinstance(results, tvm.runtime.Tensor) else results)]


@pytest.mark.parametrize(
    ("name", "shapes", "calls"),
    [
        (
            "classifier",
            [{"batch": 1}, {"batch": 4}],
            {(1, 3, 8, 8): "main_batch1", (4, 3, 8, 8): "main_batch4", (3, 3, 8, 8): "main_any"},
        ),
        (
            "encoder",
            [{"batch": 1}, {"batch": 1, "length": 16}],
            {(1, 16, 32): "main_batch1_length16", (1, 5, 32): "main_batch1", (2, 16, 32): "main_any"},
        ),
    ],
)
def test_a_call_takes_the_function_with_the_most_sizes_of_its_inputs(
    name: str, shapes: Sequence[Mapping[str, int]], calls: Mapping[tuple[int, ...], str]
):
    module, weights = network(name)
    machine = Machine(lower_shapes(module, OPTIONS, shapes), weights)
    for shape, function in calls.items():
        x = models.random(*shape)
        for result, right in zip(machine.run(x), expected(name, x), strict=True):
            np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-4)
        assert machine.functions == [function]


def test_functions_share_weights_and_the_one_with_the_most_work_chooses_their_layout():
    module, weights = network("encoder")
    how = LoweringOptions(TARGET, inputs=1, build=BuildOptions())
    shapes = [{"batch": 1, "length": 1}, {"batch": 8, "length": 64}]
    alone = [lower_function(tvm.relax.transform.BindSymbolicVars(shape, "main")(module), how) for shape in shapes]
    layouts = [{str(w.name): tuple(w.ty.shape) for w in lowered.fused["main"].params[1:]} for lowered in alone]
    assert layouts[0] != layouts[1]
    together = lower_shapes(module, how, shapes)
    assert {str(w.name): tuple(w.ty.shape) for w in together.fused["main"].params[1:]} == layouts[1]
    machine = Machine(together, weights, TARGET)
    for shape in ((1, 1, 32), (8, 64, 32), (2, 3, 32)):
        x = models.random(*shape)
        np.testing.assert_allclose(machine.run(x)[0], expected("encoder", x)[0], rtol=1e-4, atol=1e-4)


def test_equal_kernels_are_stored_once():
    module, _ = network("classifier")
    lowered = lower_shapes(module, OPTIONS, [{"batch": 1}, {"batch": 4}])
    names = [str(variable.name_hint) for variable in lowered.final.get_global_vars()]
    alone = lower_function(tvm.relax.transform.BindSymbolicVars({"batch": 1}, "main")(module), OPTIONS)
    assert len(names) == len(set(names))
    assert {str(variable.name_hint) for variable in alone.fused.get_global_vars()} <= {*names}


def test_the_kernels_for_tuning_have_the_names_that_a_build_gives_them():
    module, _ = network("classifier")
    shapes = [{"batch": 1}, {"batch": 4}]
    to_tune = fused_shapes(module, OPTIONS, shapes, layout_free=OPTIONS.packs)
    built = lower_shapes(module, OPTIONS, shapes).unscheduled
    kernels = [
        {str(name.name_hint) for name, f in part.functions_items() if isinstance(f, tvm.tirx.PrimFunc)}
        for part in (to_tune, built)
    ]
    assert kernels[0] == kernels[1]


def test_a_record_with_another_layout_of_weights_is_a_miss():
    module, _ = network("encoder")
    target = TARGET

    def records(unscheduled: "tvm.IRModule") -> Applied:
        """Every kernel as its rule schedules it for its own shape, as if from a record."""
        scheduled, names = backend_of(target).schedule_kernels(unscheduled, target, (), by_rules=True)
        return Applied(scheduled, dict.fromkeys(names, "digest"), {})

    how = LoweringOptions(target, inputs=1, build=BuildOptions(), records=records)
    lowered = lower_shapes(module, how, [{"batch": 1, "length": 1}, {"batch": 8, "length": 64}])
    assert "its weights have the layout that another function chose" in lowered.misses.values()
    assert lowered.tuned.keys().isdisjoint(lowered.misses)


def test_functions_keep_the_bodies_of_their_own_loops():
    """A body for one shape calls other kernels of the same names than that for another shape."""
    step = helper.make_node("MatMul", ["old", "w"], ["product"])
    body = helper.make_graph(
        [step, helper.make_node("Tanh", ["product"], ["new"]), helper.make_node("Identity", ["runs"], ["continues"])],
        "body",
        [
            helper.make_tensor_value_info("at", models.INT64, []),
            helper.make_tensor_value_info("runs", TensorProto.BOOL, []),
            helper.make_tensor_value_info("old", models.FLOAT, ["batch", 4]),
        ],
        [
            helper.make_tensor_value_info("continues", TensorProto.BOOL, []),
            helper.make_tensor_value_info("new", models.FLOAT, ["batch", 4]),
        ],
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    inputs = {"n": (models.INT64, []), "x": (models.FLOAT, ["batch", 4])}
    proto = models.model([loop], inputs, ["y"], {"w": models.random(4, 4)})
    imported_loop = imported(proto)
    module, weights = transform(imported_loop.module, imported_loop.params, TransformRequest())
    lowered = lower_shapes(module, replace(OPTIONS, inputs=2), [{"batch": 1}, {"batch": 4}])
    machine = tvm.relax.VirtualMachine(generate(lowered.final, UNOPTIMISED, UNCHECKED, "targets.t"), tvm.cpu())
    names = [str(weight.name) for weight in lowered.fused["main"].params[2:]]
    packed = packed_weights(weights, lowered.packings, names) if lowered.packings else weights
    for batch, count in ((1, 3), (4, 2), (3, 5), (4, 0)):
        n, x = np.array(count), models.random(batch, 4)
        result = machine["main"](tvm.runtime.tensor(n), tvm.runtime.tensor(x), *(packed[name] for name in names))
        np.testing.assert_allclose(result.numpy(), models.runtime(proto, [n, x])[0], rtol=1e-5, atol=1e-6)


def test_each_function_is_captured_in_a_cuda_graph_of_its_own():
    module, _ = network("classifier")
    cuda = tvm_target(TargetConfig(tag="cuda-sm90"), "targets.cuda")
    lowered = lower_shapes(module, replace(OPTIONS, target=cuda, cuda_graph=True), [{"batch": 1}, {"batch": 4}])
    graphs = re.findall(r"(\w+)_cuda_graph_capture, \([^)]*\), (\d+)", lowered.final.script(show_meta=False))
    assert graphs == [("main_batch1", "0"), ("main_batch4", "1")]


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ({"length": 4}, "shapes.length: the model has no dynamic dimension 'length'"),
        ({"batch": 9}, "shapes.batch: should be 9, but the network takes 1 to 8"),
    ],
)
def test_a_shape_that_the_network_does_not_have_is_refused(shape: Mapping[str, int], problem: str):
    from tvmake.ir.bounds import with_bounds

    module = with_bounds(network("classifier")[0], {"batch": (1, 8)})
    with pytest.raises(InputError, match=problem):
        lower_shapes(module, OPTIONS, [shape])
