"""CUDA graphs are kept for each shape of a network, if the bounds of its dimensions allow few."""

from typing import Any

import pytest
import tvm

from tests.tune.graphs import graph
from tvmake.codegen.cuda_graphs import MOST_GRAPHS, graph_obstacle
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.ir.bounds import bounds_of, with_bounds

op = tvm.relax.op
CUDA = tvm.target.Target({"kind": "cuda", "arch": "sm_80"})


def network(**bounds: tuple[int, int | None]) -> Any:
    """Two matmuls with a dynamic number of rows; the weights are static."""
    rows = tvm.tirx.Var("n", "int64")

    def expression(x: Any, first: Any, second: Any, third: Any) -> Any:
        return op.matmul(op.nn.relu(op.matmul(op.matmul(x, first), second)), third)

    weight = [64, 64], "float32"
    module = graph(expression, ([rows, 64], "float32"), weight, weight, weight)
    module["main"] = module["main"].with_attr("num_input", 1)
    return with_bounds(module, bounds)


def captures(module: Any) -> bool:
    text = lower(module, CUDA, [], PassOptions(), 1, cuda_graph=True).final.script()
    return "cuda_graph.run_or_capture" in text


def test_a_graph_is_kept_for_each_shape_within_the_bounds():
    assert captures(network(n=(1, MOST_GRAPHS)))


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        ({}, "dimension 'n' has no upper bound; set one, as in `dims: {n: {min: 1, max: 16}}`"),
        ({"n": (1, MOST_GRAPHS + 1)}, f"the bounds of 'n' allow {MOST_GRAPHS + 1} shapes"),
    ],
    ids=["no bound", "too many shapes"],
)
def test_other_dimensions_are_launched_kernel_by_kernel(bounds: dict[str, Any], reason: str):
    module = network(**bounds)
    assert not captures(module)
    assert reason in str(graph_obstacle(module, bounds_of(module)))
