"""Masked assignments in the form of PyTorch's exporters."""

import numpy as np
import pytest
import torch
import tvm
from onnx import helper
from torch import nn

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, model, random, read, runtime, save
from tests.transform.nets import transformed
from tests.unoptimised import UNOPTIMISED
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.errors import InputError
from tvmake.frontend.onnx.importer import inspect

node = helper.make_node
INDICES = [
    node("Greater", ["m", "zero"], ["mask"]),
    node("NonZero", ["mask"], ["found"]),
    node("Transpose", ["found"], ["indices"]),
    node("Shape", ["indices"], ["size"]),
    node("Slice", ["size", "[0]", "[1]"], ["count"]),
]
CONSTANTS = {
    "zero": np.float32(0),
    "[0]": np.array([0]),
    "[1]": np.array([1]),
    "[3]": np.array([3]),
    "value": np.float32(1.5),
}
ONE_EACH = [node("Expand", ["value", "count"], ["updates"])]
ROWS = [node("Concat", ["count", "[3]"], ["to"], axis=0), node("Expand", ["row", "to"], ["updates"])]
CASES = {
    "one value": (["batch", 4], ONE_EACH, {}),
    "one value, for each element behind": ([4], [node("Concat", ["count", "[3]"], ["to"], axis=0), node("Expand", ["value", "to"], ["updates"])], {}),
    "a row": ([4], ROWS, {"row": random(3)}),
    "a row with an axis before": ([4], ROWS, {"row": random(1, 3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_masked_assignment_becomes_where(tmp_path, name):
    shape, updates, constants = CASES[name]
    data = ["batch", 4] if name == "one value" else [4, 3]
    nodes = [*INDICES, *updates, node("ScatterND", ["x", "indices", "updates"], ["y"])]
    proto = model(nodes, {"x": (FLOAT, data), "m": (FLOAT, shape)}, ["y"], {**CONSTANTS, **constants})
    path = save(tmp_path / "m.onnx", proto)
    assert [value.name for value in inspect(path).inputs] == ["x", "m"]
    feeds = [random(*(3 if extent == "batch" else extent for extent in one), seed=len(one)) for one in (data, shape)]
    np.testing.assert_array_equal(run_compiled(read(path), feeds)[0], runtime(proto, feeds)[0])


SELECTED = {
    "elements": ([2, 4], [node("GatherND", ["z", "indices"], ["updates"])]),
    "elements by the same mask, computed twice": (
        [2, 4],
        [
            node("Greater", ["m", "zero"], ["again"]), node("NonZero", ["again"], ["found_again"]),
            node("Transpose", ["found_again"], ["indices_again"]), node("GatherND", ["z", "indices_again"], ["updates"]),
        ],
    ),
    "elements that are computed": (
        [2, 4],
        [
            node("GatherND", ["z", "indices"], ["of_z"]), node("GatherND", ["x", "indices"], ["of_x"]), node("Exp", ["of_x"], ["e"]),
            node("Mul", ["of_z", "value"], ["more"]), node("Add", ["more", "e"], ["sum"]), node("Reshape", ["sum", "[-1]"], ["list"]),
            node("Slice", ["list", "[0]", "count", "[0]"], ["updates"]),
        ],
    ),
    "rows": ([2], [node("GatherND", ["z", "indices"], ["updates"])]),
    "rows of a dense layer": (
        [2],
        [
            node("GatherND", ["z", "indices"], ["rows"]), node("Gemm", ["rows", "weight", "row"], ["dense"], transB=1),
            node("Relu", ["dense"], ["updates"]),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SELECTED))
def test_an_assignment_of_values_selected_by_the_same_mask_becomes_where(tmp_path, name):
    """One value for each index, in the indices' order."""
    shape, updates = SELECTED[name]
    nodes = [*INDICES, *updates, node("ScatterND", ["x", "indices", "updates"], ["y"])]
    inputs = {"x": (FLOAT, [2, 4]), "m": (FLOAT, shape), "z": (FLOAT, [2, 4])}
    constants = {**CONSTANTS, "[-1]": np.array([-1]), "weight": random(4, 4), "row": random(4)}
    proto = model(nodes, inputs, ["y"], constants)
    mask = np.array([[-1, 1, 1, -1], [1, -1, -1, 1]], np.float32)
    feeds = [random(2, 4), mask if len(shape) == 2 else mask[:, 1], random(2, 4, seed=2)]
    found = run_compiled(read(save(tmp_path / "m.onnx", proto)), feeds)[0]
    np.testing.assert_allclose(found, runtime(proto, feeds)[0], rtol=1e-5)


class OfSelectedRows(nn.Module):
    """A sub-network for some rows, like in mixtures of experts."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.part = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 6))

    def forward(self, x):
        every = self.first(x)
        selected, result = x[..., 0] > 0, every.clone()
        result[selected] = self.part(x[selected]) * 0.5 + torch.tanh(every[selected])
        return result


@pytest.mark.parametrize("shape", [(5, 6), (2, 5, 6)], ids=["rows", "rows of a batch"])
def test_rows_are_selected_and_put_back_as_pytorch_exports_it(tmp_path, shape):
    torch.manual_seed(0)
    network, x = OfSelectedRows().eval(), torch.randn(*shape)
    torch.onnx.export(network, (x,), str(tmp_path / "m.onnx"), dynamo=False, verbose=False, input_names=["x"])
    found = run_compiled(read(tmp_path / "m.onnx"), [x.numpy()])[0]
    np.testing.assert_allclose(found, network(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def assert_agrees_for_every_count(path, nodes, inputs, constants, feeds):
    """Such networks need the number of selected rows; they are not selections between two tensors."""
    proto = model(nodes, inputs, ["y"], constants)
    module, parameters = transformed(read(save(path, proto)))[:2]
    lowered = lower(module, UNOPTIMISED, [], PassOptions(), len(inputs), rules=False)
    machine = tvm.relax.VirtualMachine(generate(lowered.final, UNOPTIMISED, BuildOptions(), "targets.t"), tvm.cpu())
    weights = [value.numpy() for value in parameters.values()]
    for values in feeds:
        output = machine["main"](*map(tvm.runtime.tensor, [*values, *weights])).numpy()
        np.testing.assert_allclose(output, runtime(proto, values)[0], rtol=1e-5)


def test_a_part_of_each_row_is_distinguished_from_the_rows(tmp_path):
    nodes = [
        *INDICES,
        node("GatherND", ["z", "indices"], ["rows"]),
        node("Slice", ["rows", "[0]", "[3]", "[1]"], ["parts"]),
        node("MatMul", ["parts", "matrix"], ["updates"]),
        node("ScatterND", ["x", "indices", "updates"], ["y"]),
    ]
    inputs = {"x": (FLOAT, [2, 4]), "m": (FLOAT, [2]), "z": (FLOAT, [2, 4])}
    constants = {**CONSTANTS, "[1]": np.array([1]), "matrix": random(3, 4)}
    masks = np.array([[1, -1], [1, 1], [-1, -1]], np.float32)
    feeds = [[random(2, 4), mask, random(2, 4, seed=1)] for mask in masks]
    assert_agrees_for_every_count(tmp_path / "m.onnx", nodes, inputs, constants, feeds)


def test_values_selected_by_another_mask_are_refused(tmp_path):
    nodes = [
        *INDICES,
        node("Greater", ["z", "zero"], ["other"]),
        node("NonZero", ["other"], ["found_elsewhere"]),
        node("Transpose", ["found_elsewhere"], ["elsewhere"]),
        node("GatherND", ["z", "elsewhere"], ["updates"]),
        node("ScatterND", ["x", "indices", "updates"], ["y"]),
    ]
    inputs = {"x": (FLOAT, [2, 4]), "m": (FLOAT, [2, 4]), "z": (FLOAT, [2, 4])}
    path = save(tmp_path / "m.onnx", model(nodes, inputs, ["y"], CONSTANTS))
    with pytest.raises(InputError, match=r"ScatterND .* requires the updates tensor to have the shape"):
        read(path)


@pytest.mark.parametrize("extent", [1, 3])
def test_a_mask_of_a_part_of_the_data_is_not_broadcast(tmp_path, extent):
    nodes = [*INDICES, *ONE_EACH, node("ScatterND", ["x", "indices", "updates"], ["y"])]
    inputs = {"x": (FLOAT, [4]), "m": (FLOAT, [extent])}
    feeds = [[random(4), np.full(extent, sign, np.float32)] for sign in (1, -1)]
    assert_agrees_for_every_count(tmp_path / "m.onnx", nodes, inputs, CONSTANTS, feeds)
