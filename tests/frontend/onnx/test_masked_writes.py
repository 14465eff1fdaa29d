"""Values put where a mask holds, as PyTorch's exporters write them."""

import numpy as np
import pytest
import torch
from onnx import helper
from torch import nn

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, model, random, read, runtime, save
from tvmake.errors import InputError
from tvmake.frontend.onnx.importer import inspect

node = helper.make_node
PLACES = [
    node("Greater", ["m", "zero"], ["mask"]),
    node("NonZero", ["mask"], ["found"]),
    node("Transpose", ["found"], ["places"]),
    node("Shape", ["places"], ["size"]),
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
def test_values_put_where_a_mask_holds_are_a_choice(tmp_path, name):
    shape, updates, constants = CASES[name]
    data = ["batch", 4] if name == "one value" else [4, 3]
    nodes = [*PLACES, *updates, node("ScatterND", ["x", "places", "updates"], ["y"])]
    made = model(nodes, {"x": (FLOAT, data), "m": (FLOAT, shape)}, ["y"], {**CONSTANTS, **constants})
    path = save(tmp_path / "m.onnx", made)
    assert [value.name for value in inspect(path).inputs] == ["x", "m"]
    feeds = [random(*(3 if extent == "batch" else extent for extent in one), seed=len(one)) for one in (data, shape)]
    np.testing.assert_array_equal(run_compiled(read(path), feeds)[0], runtime(made, feeds)[0])


SELECTED = {
    "elements": ([2, 4], [node("GatherND", ["z", "places"], ["updates"])]),
    "elements by the same mask, computed twice": (
        [2, 4],
        [
            node("Greater", ["m", "zero"], ["again"]), node("NonZero", ["again"], ["found_again"]),
            node("Transpose", ["found_again"], ["places_again"]), node("GatherND", ["z", "places_again"], ["updates"]),
        ],
    ),
    "elements that are computed": (
        [2, 4],
        [
            node("GatherND", ["z", "places"], ["of_z"]), node("GatherND", ["x", "places"], ["of_x"]), node("Exp", ["of_x"], ["e"]),
            node("Mul", ["of_z", "value"], ["more"]), node("Add", ["more", "e"], ["sum"]), node("Reshape", ["sum", "[-1]"], ["list"]),
            node("Slice", ["list", "[0]", "count", "[0]"], ["updates"]),
        ],
    ),
    "rows": ([2], [node("GatherND", ["z", "places"], ["updates"])]),
    "rows of a dense layer": (
        [2],
        [
            node("GatherND", ["z", "places"], ["rows"]), node("Gemm", ["rows", "weight", "row"], ["dense"], transB=1),
            node("Relu", ["dense"], ["updates"]),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SELECTED))
def test_what_the_same_mask_selects_elsewhere_is_a_choice(tmp_path, name):
    """As many as there are places, in their order."""
    shape, updates = SELECTED[name]
    nodes = [*PLACES, *updates, node("ScatterND", ["x", "places", "updates"], ["y"])]
    inputs = {"x": (FLOAT, [2, 4]), "m": (FLOAT, shape), "z": (FLOAT, [2, 4])}
    constants = {**CONSTANTS, "[-1]": np.array([-1]), "weight": random(4, 4), "row": random(4)}
    made = model(nodes, inputs, ["y"], constants)
    mask = np.array([[-1, 1, 1, -1], [1, -1, -1, 1]], np.float32)
    feeds = [random(2, 4), mask if len(shape) == 2 else mask[:, 1], random(2, 4, seed=2)]
    found = run_compiled(read(save(tmp_path / "m.onnx", made)), feeds)[0]
    np.testing.assert_allclose(found, runtime(made, feeds)[0], rtol=1e-5)


class OfSelectedRows(nn.Module):
    """A part of a network for some rows, as mixtures of experts have it."""

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


def test_a_part_of_each_row_is_not_taken_for_the_rows(tmp_path):
    nodes = [
        *PLACES,
        node("GatherND", ["z", "places"], ["rows"]),
        node("Slice", ["rows", "[0]", "[3]", "[1]"], ["parts"]),
        node("MatMul", ["parts", "matrix"], ["updates"]),
        node("ScatterND", ["x", "places", "updates"], ["y"]),
    ]
    inputs = {"x": (FLOAT, [2, 4]), "m": (FLOAT, [2]), "z": (FLOAT, [2, 4])}
    constants = {**CONSTANTS, "[1]": np.array([1]), "matrix": random(3, 4)}
    with pytest.raises(InputError, match="depends on the data"):
        read(save(tmp_path / "m.onnx", model(nodes, inputs, ["y"], constants)))


def test_what_another_mask_selects_is_refused(tmp_path):
    nodes = [
        *PLACES,
        node("Greater", ["z", "zero"], ["other"]),
        node("NonZero", ["other"], ["found_elsewhere"]),
        node("Transpose", ["found_elsewhere"], ["elsewhere"]),
        node("GatherND", ["z", "elsewhere"], ["updates"]),
        node("ScatterND", ["x", "places", "updates"], ["y"]),
    ]
    inputs = {"x": (FLOAT, [2, 4]), "m": (FLOAT, [2, 4]), "z": (FLOAT, [2, 4])}
    path = save(tmp_path / "m.onnx", model(nodes, inputs, ["y"], CONSTANTS))
    for look in (inspect, read):
        with pytest.raises(InputError, match="depends on the data"):
            look(path)


@pytest.mark.parametrize("extent", [1, 3])
def test_a_mask_of_a_part_of_the_data_is_not_spread_over_all_of_it(tmp_path, extent):
    nodes = [*PLACES, *ONE_EACH, node("ScatterND", ["x", "places", "updates"], ["y"])]
    path = save(tmp_path / "m.onnx", model(nodes, {"x": (FLOAT, [4]), "m": (FLOAT, [extent])}, ["y"], CONSTANTS))
    for look in (inspect, read):
        with pytest.raises(InputError, match="depends on the data"):
            look(path)
