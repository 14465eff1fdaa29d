"""Element-wise operators keep the layout of their operands, with the same values."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.tune.graphs import graph
from tests.unoptimised import unoptimised_machine
from tvmake.ir.expressions import is_call
from tvmake.transform.layouts.choices import LAYOUTS
from tvmake.transform.layouts.transposes import transpose_afterwards

op = relax.op
SLOPES = relax.const(np.linspace(-1, 1, 4, dtype="float32").reshape(1, 4, 1, 1))
ZERO = relax.const(0.0, "float32")
NETS: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "a choice": lambda x: op.where(op.greater(x, ZERO), x, op.exp(x)),
    "a choice of a number": lambda x: op.where(op.less(x, ZERO), ZERO, x),
    "PReLU": lambda x: op.where(op.greater(x, ZERO), x, op.multiply(SLOPES, x)),
    "what follows a choice": lambda x: op.add(op.where(op.greater(x, ZERO), x, ZERO), op.sigmoid(x)),
}


def network(name: str) -> tvm.IRModule:
    """Two convolutions with operators between them."""
    return graph(
        lambda x, first, last: op.nn.conv2d(NETS[name](op.nn.conv2d(x, first)), last),
        ((2, 3, 6, 5), "float32"), ((4, 3, 1, 1), "float32"), ((2, 4, 1, 1), "float32"),
    )  # fmt: skip


def converted(name: str) -> tvm.IRModule:
    return relax.transform.ConvertLayout(LAYOUTS["NHWC"])(relax.transform.Normalize()(network(name)))


def transposed(module: tvm.IRModule) -> list[relax.Call]:
    """The transpositions of feature maps with four channels."""
    found: list[relax.Call] = []

    def visit(node: object) -> None:
        if is_call(node, "permute_dims") and sorted(map(int, node.args[0].ty.shape)) == [2, 4, 5, 6]:
            found.append(node)

    relax.analysis.post_order_visit(relax.transform.DeadCodeElimination()(module)["main"], visit)
    return found


def computed(module: tvm.IRModule) -> np.ndarray:
    generator = np.random.default_rng(0)
    shapes = [(2, 3, 6, 5), (4, 3, 1, 1), (2, 4, 1, 1)]
    arguments = [tvm.runtime.tensor(generator.standard_normal(shape).astype("float32")) for shape in shapes]
    return unoptimised_machine(module)["main"](*arguments).numpy()


@pytest.mark.parametrize("name", NETS)
def test_no_feature_map_is_transposed_between_convolutions(name: str):
    assert not transposed(transpose_afterwards(converted(name)))


@pytest.mark.parametrize("name", NETS)
def test_the_results_are_the_same(name: str):
    np.testing.assert_allclose(
        computed(transpose_afterwards(converted(name))), computed(network(name)), rtol=1e-5, atol=1e-6
    )


def test_a_value_with_users_in_two_layouts_is_correct_in_both():
    def net(x: relax.Expr, mask: relax.Expr) -> relax.Expr:
        turned = op.permute_dims(x, [0, 2, 3, 1])
        return op.where(
            op.greater(op.permute_dims(turned, [0, 3, 1, 2]), mask), op.permute_dims(turned, [0, 3, 1, 2]), mask
        )

    module = graph(net, ((1, 2, 3, 4), "float32"), ((1, 2, 3, 4), "float32"))
    x, mask = (np.random.default_rng(seed).standard_normal((1, 2, 3, 4)).astype("float32") for seed in (0, 1))
    machine = unoptimised_machine(transpose_afterwards(module))
    found = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(mask)).numpy()
    assert np.array_equal(found, np.maximum(x, mask))
