"""Reshapes with dynamic dimensions divide within groups of axes, and are fused with other kernels."""

import numpy as np
import pytest
import tvm

from tests.unoptimised import unoptimised_machine
from tvmake.ir.size_expressions import evaluate_size
from tvmake.targets.dynamic.reshapes import RESHAPES

from tvm import relax  # isort: skip

HEIGHT, WIDTH = (tvm.tirx.Var(name, "int64") for name in ("height", "width"))


def network(shape, target):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.reshape(builder.emit(relax.op.exp(x)), target))
        builder.emit_func_output(result)
    return builder.get()


def pattern(module, legalizers):
    """TVM's kind of the reshape's kernel: 8 is opaque to fusion."""
    kernels = relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps(legalizers)(module))
    return int(kernels["reshape"].attrs["op_pattern"])


def test_reshapes_are_injective():
    module = network([1, 8, HEIGHT, WIDTH], [1, 2, 4, HEIGHT, WIDTH])
    assert (pattern(module, {}), pattern(module, RESHAPES)) == (8, 2)


SHAPES = {
    "channels split": ([1, 8, HEIGHT, WIDTH], [1, 2, 2, 2, HEIGHT, WIDTH]),
    "pixels joined": ([1, 3, HEIGHT, 2, WIDTH, 2], [1, 3, HEIGHT * 2, WIDTH * 2]),
    "dimensions joined": ([HEIGHT, WIDTH, 6], [HEIGHT * WIDTH, 6]),
    "dimensions split": ([HEIGHT * WIDTH, 1, 6], [HEIGHT, WIDTH, 2, 1, 3]),
    "across dimensions": ([HEIGHT // 2 * 2, 3], [HEIGHT // 2 * 3, 2]),
    "sums joined": ([1, 3, 7, 2, HEIGHT + 2, 2], [1, 3, 14, (HEIGHT + 2) * 2]),
    "groups unknown": ([HEIGHT * 3, 4], [HEIGHT * 2, 6]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_elements_keep_their_order(name):
    shape, target = SHAPES[name]
    dims = {"height": 4, "width": 3}
    sizes = [[evaluate_size(size, dims) for size in sizes] for sizes in (shape, target)]
    lowered = relax.transform.LegalizeOps(RESHAPES)(network([*shape, HEIGHT, WIDTH], [*target, HEIGHT, WIDTH]))
    machine = unoptimised_machine(lowered)
    x = np.random.default_rng(0).standard_normal([*sizes[0], 4, 3]).astype("float32")
    result = machine["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(result, np.exp(x).reshape([*sizes[1], 4, 3]), rtol=1e-5)
