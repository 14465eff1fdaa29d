"""Weights whose layout tuning chooses: which they are, and how their packing leaves the graph."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import tvm

from tests.tune.graphs import CPU, graph, kept
from tests.tune.replayed import kernels, traces
from tvmake.codegen.generating import lower_and_generate
from tvmake.codegen.lowering import fused_module
from tvmake.codegen.options import PassOptions
from tvmake.codegen.scheduling.replay import replay
from tvmake.codegen.weights import packed_weights
from tvmake.config.requests.building import BuildRequest
from tvmake.config.target import TargetConfig
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.quantize.precision import PrecisionConfig
from tvmake.records.workload import workload
from tvmake.targets.resolve import tvm_target
from tvmake.targets.weights.layout_free import ATTRIBUTE, mark_layout_free
from tvmake.targets.weights.prepack import prepack, split
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest

op = tvm.relax.op
F32 = "float32"
X, W = ((1, 16, 12, 12), F32), ((16, 16, 3, 3), F32)


def conv(data, weight):
    return op.nn.conv2d(data, weight, padding=1)


def fused(expression, *inputs, layout_free=True):
    return fused_module(kept(graph(expression, *inputs)), CPU, [], PassOptions(), 1, layout_free)


def scheduled(module, name):
    """The module with a random schedule for one kernel."""
    own = workload(kernels(module)[name], CPU)
    function = replay(own, traces(own)[0]).without_attr("global_symbol")
    functions = {variable: one for variable, one in module.functions_items() if variable.name_hint != name}
    return tvm.IRModule({**functions, module.get_global_var(name): function})


def run(module, *arguments):
    executable = tvm.relax.build(module, CPU)
    machine = tvm.relax.VirtualMachine(executable, tvm.cpu())
    return machine["main"](*(tvm.runtime.tensor(value) for value in arguments)).numpy()


def random(*inputs):
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(dtype) for shape, dtype in inputs]


def test_arguments_that_are_weights_in_every_call_are_free():
    module = fused(lambda x, w, v: conv(conv(x, w), v), X, W, W)
    (function,) = kernels(module).values()
    assert list(function.attrs[ATTRIBUTE]) == [1]


def test_an_argument_that_is_computed_in_one_call_keeps_its_layout():
    module = fused(lambda x, w: op.matmul(op.matmul(x, w), op.matmul(w, x)), ((32, 32), F32), ((32, 32), F32))
    (function,) = kernels(module).values()
    assert ATTRIBUTE not in function.attrs


def test_marking_keeps_names_and_touches_nothing_else():
    plain = fused(lambda x, w: op.nn.softmax(conv(x, w)), X, W, layout_free=False)
    marked = mark_layout_free(plain, 1)
    assert kernels(plain).keys() == kernels(marked).keys()
    changed = {name for name, function in kernels(marked).items() if ATTRIBUTE in function.attrs}
    assert changed == {"conv2d"}


def test_a_kernel_splits_into_packing_and_computing():
    module = scheduled(fused(conv, X, W), "conv2d")
    parts = split(kernels(module)["conv2d"])
    assert parts is not None and parts.packed == (1,)
    source, packed = (parameter.ty.shape for parameter in parts.packing.params)
    assert [int(extent) for extent in source] == list(W[0])
    assert [str(e) for e in packed] == [str(e) for e in parts.compute.params[1].ty.shape] != [str(e) for e in source]
    assert split(parts.compute) is None


def test_a_graph_on_packed_weights_gives_the_same_numbers():
    plain = fused(lambda x, w, v: op.nn.relu(conv(conv(x, w), v)), X, W, W)
    name = next(name for name in kernels(plain) if "relu" not in name)
    made = prepack(scheduled(plain, name), 1)
    names = [str(parameter.name) for parameter in made.module["main"].params]
    assert names == ["x0", "x1_packed", "x2"]
    x, w, v = random(X, W, W)
    given = {"x1": tvm.runtime.tensor(w), "x2": tvm.runtime.tensor(v)}
    packed = packed_weights(given, made.packings, names[1:])
    got = run(made.module, x, *(value.numpy() for value in packed.values()))
    np.testing.assert_allclose(got, run(plain, x, w, v), rtol=1e-4, atol=1e-3)


def test_a_packed_weight_may_have_the_name_of_its_source():
    plain = fused(conv, X, W)
    (name,) = kernels(plain)
    (packing,) = prepack(scheduled(plain, name), 1).packings
    given = {"x1": tvm.runtime.tensor(random(W)[0])}
    (expected,) = packed_weights(given, [packing], packing.results).values()
    (found,) = packed_weights(given, [replace(packing, results=packing.sources)], packing.sources).values()
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_a_weight_used_twice_by_one_kernel_is_packed_once_and_kept_where_others_need_it():
    plain = fused(lambda x, w: op.add(conv(conv(x, w), w), op.mean(w)), X, W)
    name = next(name for name, function in kernels(plain).items() if ATTRIBUTE in function.attrs and "conv2d" in name)
    made = prepack(scheduled(plain, name), 1)
    assert len(made.packings) == 1
    assert [str(parameter.name) for parameter in made.module["main"].params] == ["x0", "x1", "x1_packed"]


def test_a_packed_weight_takes_a_free_name():
    inputs = X, W, ((1, 16, 1, 1), F32)
    named = graph(lambda x, w, v: op.add(conv(x, w), v), *inputs, names=["x", "w", "w_packed"])
    plain = fused_module(kept(named), CPU, [], PassOptions(), 1, layout_free=True)
    (name,) = kernels(plain)
    made = prepack(scheduled(plain, name), 1)
    names = [str(parameter.name) for parameter in made.module["main"].params]
    assert names[0] == "x" and names[1].startswith("w_packed") and len(set(names)) == 3


def test_a_graph_without_packing_stays_unchanged():
    plain = fused(conv, X, W)
    made = prepack(plain, 1)
    assert made.module.same_as(plain) and made.packings == ()


@pytest.mark.parametrize("width", [100, 1000])
def test_unused_space_of_a_padded_layout_is_zero(width):
    plain = fused(lambda x, w: op.matmul(x, w), ((1, 64), F32), ((64, width), F32))
    (name,) = kernels(plain)
    made = prepack(scheduled(plain, name), 1)
    weight = np.ones((64, width), F32)
    first, second = (
        packed_weights({"x1": tvm.runtime.tensor(weight)}, made.packings, ["x1_packed"])["x1_packed"].numpy()
        for _ in range(2)
    )
    assert first.tobytes() == second.tobytes()
    assert first.sum() == weight.size


class Rows(torch.nn.Module):
    """A state with any number of rows, as at the start of recurrent networks."""

    def __init__(self):
        super().__init__()
        self.state, self.rows = torch.nn.Linear(64, 256), torch.nn.Linear(16, 256)

    def forward(self, state, x):
        return self.state(state) + self.rows(x)


def test_a_matmul_in_a_kernel_with_any_number_of_rows_is_packed():
    torch.manual_seed(0)
    net, state, x = Rows().eval(), torch.randn(1, 64), torch.randn(3, 16)
    program = torch.export.export(net, (state, x), dynamic_shapes=({}, {0: torch.export.Dim("rows")}))
    imported = read(program, ImportOptions(source="net", trusted=True))
    request = TransformRequest(precision=PrecisionConfig(base=F32))
    module, params = transform(imported.module, imported.params, request)
    config = TargetConfig(kind="llvm")
    built = BuildRequest(model="net", precision=F32, target_name="t", target=config)
    made, executable = lower_and_generate(module, tvm_target(config, "targets.t"), built, 2)
    names = [str(parameter.name) for parameter in made.fused["main"].params[2:]]
    weights = packed_weights(params, made.packings, names) if made.packings else params
    machine = tvm.relax.VirtualMachine(executable, tvm.cpu())
    given = [tvm.runtime.tensor(one.numpy()) for one in (state, x)]
    found = machine["main"](*given, *(weights[name] for name in names)).numpy()
    np.testing.assert_allclose(found, net(state, x).detach().numpy(), rtol=1e-4, atol=1e-5)
