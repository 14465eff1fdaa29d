"""Changes of shape do not separate GPU kernels from element-wise steps, and matmul parts are copied once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from tests.requirements import need
from tests.targets.adreno_texture.nets import lowered, op, tensor
from tests.targets.cpu.schedules.nets import values
from tests.targets.gpu.nets import error
from tests.transform.nets import calls, operator, run
from tests.tune.graphs import graph
from tvmake.targets.gpu.shape_changes import move_shape_changes

NVIDIA = "opencl-nvidia"
NEAR = 3e-6
"""Sums are added in another order."""


def linear(x: Any, w: Any, b: Any) -> Any:
    """A linear layer of tokens as PyTorch decomposes it."""
    rows = op.reshape(x, (14, 8))
    return op.reshape(op.add(b, op.matmul(rows, w)), (2, 7, 8))


def residual(x: Any, w: Any, b: Any) -> Any:
    return op.nn.gelu(op.add(x, linear(x, w, b)))


def branches(x: Any, w: Any, b: Any) -> Any:
    first, second = linear(x, w, b), linear(x, w, op.add(b, b))
    return op.maximum(op.add(first, b), op.multiply(second, tvm.relax.const(np.ones((1, 1), "float32"))))


def squeezed(x: Any, w: Any) -> Any:
    return op.tanh(op.expand_dims(op.squeeze(op.matmul(x, w), [0]), [0]))


def attention(x: Any, w: Any) -> Any:
    """Two heads of queries, keys and values that are parts of one matmul."""
    packed = op.permute_dims(op.reshape(op.matmul(x, w), (1, 9, 3, 2, 4)), (2, 0, 3, 1, 4))
    q, k, v = (op.squeeze(op.strided_slice(packed, [0], [part], [part + 1]), [0]) for part in range(3))
    scores = op.reshape(
        op.matmul(op.reshape(q, (2, 9, 4)), op.permute_dims(op.reshape(k, (2, 9, 4)), (0, 2, 1))), (1, 2, 9, 9)
    )
    weighed = op.reshape(op.broadcast_to(op.nn.softmax(scores), (1, 2, 9, 9)), (2, 9, 9))
    return op.matmul(op.multiply(weighed, tvm.relax.const(0.5)), op.reshape(v, (2, 9, 4)))


TOKENS = (tensor(2, 7, 8), tensor(8, 8), tensor(8))
ATTENTION = (tensor(1, 9, 8), tensor(8, 24))
MOVED = {
    "a linear layer and its residual": (residual, *TOKENS),
    "two linear layers": (branches, *TOKENS),
    "axes of one": (squeezed, tensor(1, 7, 8), tensor(8, 8)),
    "attention": (attention, *ATTENTION),
}
KERNELS = {
    "a linear layer and its residual": 1, "two linear layers": 2, "axes of one": 1, "attention": 7
}  # fmt: skip
"""Kernels of each network, without pure reshapes, which copy nothing."""


def kernels(expression: Callable[..., Any], *inputs: Any) -> list[str]:
    """The kernels that compute or move values."""
    module = lowered(expression, *inputs, name=NVIDIA).unscheduled
    names = [str(name.name_hint) for name, each in module.functions_items() if isinstance(each, tvm.tirx.PrimFunc)]
    return [name for name in names if not name.startswith("reshape")]


@pytest.mark.parametrize("what", MOVED)
def test_element_wise_steps_are_fused_into_the_matmul(what: str):
    found = kernels(*MOVED[what])
    assert len(found) == KERNELS[what], found


STAYING = {
    "a bias for each token": (lambda x, w, b: op.add(linear(x, w, b), op.take(x, tvm.relax.const(0), 0)), *TOKENS),
    "a step that spreads": (lambda x, w: op.add(op.reshape(op.matmul(x, w), (1, 16)), op.reshape(x, (16, 1))), tensor(2, 8), tensor(8, 8)),
    "a whole permutation": (lambda x, w: op.take(op.permute_dims(op.matmul(x, w)), tvm.relax.const(np.arange(8)), 0), tensor(5, 8), tensor(8, 8)),
    "the input itself": (lambda x: op.reshape(op.broadcast_to(x, (3, 4)), (3, 4)), tensor(3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("what", [*MOVED, *STAYING])
def test_the_result_is_the_same(what: str):
    expression, *inputs = {**MOVED, **STAYING}[what]
    module, arguments = graph(expression, *inputs), values(*inputs)
    expected = run((module, {}), *arguments)
    np.testing.assert_allclose(run((move_shape_changes(module), {}), *arguments), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("what", [*MOVED, "the input itself"])
def test_kernels_run(what: str):
    need("PoCL")
    assert error(*{**MOVED, **STAYING}[what], name=NVIDIA) < NEAR


def test_extents_may_be_known_later():
    tokens = tvm.tirx.Var("tokens", "int64")

    def expression(x: Any, w: Any) -> Any:
        return op.add(x, op.reshape(op.matmul(op.reshape(x, (2 * tokens, 8)), w), (2, tokens, 8)))

    module = graph(expression, ((2, tokens, 8), "float32"), tensor(8, 8))
    moved = move_shape_changes(module)
    made = [operator(call) for call in calls(moved)]
    assert made.index("add") == made.index("matmul") + 1 or made[-2:] == ["add", "reshape"], made
    arguments = values(tensor(2, 5, 8), tensor(8, 8))
    np.testing.assert_allclose(run((moved, {}), *arguments), run((module, {}), *arguments), rtol=1e-5, atol=1e-6)


def test_many_steps_are_looked_at_once_each():
    """Each step reads the previous one twice: the number of paths would be exponential."""

    def expression(x: Any) -> Any:
        for _ in range(300):
            x = tvm.relax.BlockBuilder.current().emit(op.add(x, x))
        return op.tanh(op.reshape(x, (6,)))

    assert len(calls(move_shape_changes(graph(expression, tensor(2, 3))))) == 302
