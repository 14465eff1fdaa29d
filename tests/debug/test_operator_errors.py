"""The noise of each operator of a package, relative to the original network."""

import numpy as np
import pytest
from tvm import relax

from tests.tune.graphs import graph
from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.config.requests.building import BuildRequest
from tvmake.config.target import TargetConfig
from tvmake.debug.departure import ValuePool
from tvmake.debug.operator_errors import operator_errors

F32 = "float32"
op = relax.op
X = np.linspace(-2, 2, 24, dtype=F32).reshape(2, 12)
W = np.linspace(-1, 1, 12 * 8, dtype=F32).reshape(12, 8)
REQUEST = BuildRequest(
    model="m", precision=F32, target_name="cpu", target=TargetConfig(kind="llvm"), build={}, passes=[]
)


def signature(*extents: int | str) -> Signature:
    def spec(name: str, shape: tuple[int | str, ...]) -> TensorSpec:
        return TensorSpec(name=name, relax_name=name, shape=shape, dtype=F32)

    return Signature(inputs=(spec("x0", extents),), outputs=(spec("y", (extents[0], 8)),))


def layer(x):
    return op.nn.relu(op.matmul(x, relax.const(W, F32)))


def half(x):
    product = op.matmul(op.astype(x, "float16"), relax.const(W.astype("float16"), "float16"))
    return op.astype(op.nn.relu(product), F32)


def errors(network):
    shape, known = (2, 12), signature(2, 12)
    original, built = graph(layer, (shape, F32)), graph(network, (shape, F32))
    return operator_errors(original, {}, built, {}, known, {"x0": X}, REQUEST, None)


def test_each_kernel_has_the_noise_of_its_result():
    exact = errors(layer).operators
    assert exact and all(error.noise is not None and error.noise < 1e-6 for error in exact)
    rounded = errors(half).operators
    assert [error.position for error in rounded] == sorted({error.position for error in rounded})
    assert all(error.noise is not None and 1e-6 < error.noise < 1e-2 for error in rounded)


def test_a_kernel_without_a_value_in_the_original_network_has_no_noise():
    swapped = errors(lambda x: op.matmul(op.sin(op.multiply(x, relax.const(40.0, F32))), relax.const(W, F32)))
    assert [error.noise for error in swapped.operators if "sin" in error.kernel] == [None]


def test_dynamic_dimensions_are_a_reason_not_an_error():
    found = operator_errors(None, {}, None, {}, signature("batch", 12), {"x0": X}, REQUEST, None)
    assert not found.operators and "`dims`" in found.why_not


def test_integers_are_compared_up_to_scale_and_shift():
    pool = ValuePool([X])
    assert pool.noise(np.round(X / 0.02 + 7).astype(np.int8)) < 0.01
    assert pool.noise(X.T.copy()) == 0
    assert pool.noise(np.round(X).astype(np.int8)) > 0.05
    assert pool.noise(np.zeros((5, 3), F32)) == float("inf")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_related_to_none(value: float):
    damaged = X.copy()
    damaged[0, 0] = value
    assert ValuePool([X]).noise(damaged) == float("inf")
