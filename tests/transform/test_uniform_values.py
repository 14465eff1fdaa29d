"""Tensors of a single value become scalars if an operator broadcasts them, and stay if they determine the shape."""

from typing import Any

import numpy as np
import pytest
import tvm

from tests.tune.graphs import graph
from tests.unoptimised import unoptimised_machine
from tvmake.transform.uniform_values import fill_single_values, spread_single_values

op, const = tvm.relax.op, tvm.relax.const

X = ((2, 3, 4), "float32")
VALUES = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")


def operators(module: "tvm.IRModule") -> set[str]:
    found: set[str] = set()

    def note(node: Any) -> None:
        if isinstance(node, tvm.relax.Call) and isinstance(node.op, tvm.ir.Op):
            found.add(str(node.op.name).removeprefix("relax."))

    tvm.relax.analysis.post_order_visit(module["main"].body, note)
    return found


def computed(module: "tvm.IRModule") -> np.ndarray:
    machine = unoptimised_machine(module)
    result: np.ndarray = machine["main"](tvm.runtime.tensor(VALUES)).numpy()
    return result


NETS = {
    "zeros where a row is masked": (
        lambda x: op.where(op.less(op.max(x, [2], keepdims=True), const(0.9)), op.full_like(x, const(0.0)), x),
        {"full_like"},
    ),
    "ones to be added": (lambda x: op.add(x, op.ones((2, 3, 4), "float32")), {"ones"}),
    "another value": (lambda x: op.multiply(op.full((3, 4), const(2.5)), x), {"full"}),
    "both": (lambda x: op.add(x, op.subtract(op.zeros((4,), "float32"), x)), {"zeros"}),
}


@pytest.mark.parametrize(("net", "gone"), NETS.values(), ids=NETS)
def test_a_network_computes_the_same_without_the_tensor(net, gone):
    module = graph(net, X)
    spread = spread_single_values(module)
    assert not operators(spread) & gone
    assert np.array_equal(computed(spread), computed(module))


def masked(x: Any) -> Any:
    """A tensor of minus infinities without broadcast, and one for a comparison."""
    lowest = op.full((2, 3, 4), const(-np.inf, "float32"))
    return op.concat([op.where(op.greater(x, const(0.0)), x, lowest), op.full_like(x, const(np.inf)), lowest], 1)


def test_a_tensor_of_infinities_is_computed():
    found = computed(spread_single_values(graph(masked, X)))
    infinite = np.full((2, 3, 4), np.inf, "float32")
    assert np.array_equal(found, np.concatenate([np.where(VALUES > 0, VALUES, -infinite), infinite, -infinite], 1))


def test_a_tensor_that_gives_the_result_its_shape_stays():
    module = graph(lambda x: op.add(x, op.ones((5, 2, 3, 4), "float32")), X)
    assert "ones" in operators(spread_single_values(module))


def test_the_initial_state_of_a_recurrent_network_is_not_stored():
    import torch

    from tests.transform.nets import transformed
    from tvmake.frontend.options import ImportOptions
    from tvmake.frontend.torch.importer import read

    class Cell(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gates = torch.nn.Conv2d(12, 8, 3, padding=1)

        def forward(self, x):
            h = torch.zeros(1, 8, 16, 16)
            for _ in range(2):
                h = torch.tanh(self.gates(torch.cat([x, h], 1)))
            return h

    example = torch.zeros(1, 4, 16, 16)
    imported = read(torch.export.export(Cell().eval(), (example,)), ImportOptions(source="net.pt2"))
    _, params = transformed(imported)
    assert all(np.prod(value.shape) < 8 * 16 * 16 for value in params.values())


@pytest.mark.parametrize("operator", [op.add, op.maximum])
def test_a_constant_of_one_value_is_computed_where_it_is_broadcast(operator):
    wide = ((2, 3, 4, 256), "float32")
    module = graph(lambda x: operator(x, const(np.full((2, 3, 4, 256), 0.5, "float32"))), wide)
    assert "full" in operators(fill_single_values(module))
    one_other = np.full((2, 3, 4, 256), 0.5, "float32")
    one_other[0, 0, 0, 0] = 1
    assert "full" not in operators(fill_single_values(graph(lambda x: operator(x, const(one_other)), wide)))


def test_attention_stores_no_zeros_of_the_size_of_its_scores():
    import torch

    from tests.transform.nets import transformed
    from tvmake.frontend.options import ImportOptions
    from tvmake.frontend.torch.importer import read

    class Attention(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.scaled_dot_product_attention(x, x * 2, x * 3)

    example = torch.zeros(1, 2, 300, 4)
    imported = read(torch.export.export(Attention().eval(), (example,)), ImportOptions(source="net.pt2"))
    _, params = transformed(imported)
    assert all(np.prod(value.shape) < 300 * 300 for value in params.values())
