"""Dynamic dimensions that kernels take as scalars, fused with computations from them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from tests.unoptimised import unoptimised_machine
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.config.target import TargetConfig
from tvmake.targets.resolve import tvm_target

from tvm import relax  # isort: skip

op = relax.op


def floats(start: Any, stop: Any, step: int = 1) -> Any:
    return op.astype(op.arange(start, stop, step, "int64"), "float32")


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "positions": (lambda n, p: floats(p, p + n), lambda n, p: np.arange(p, p + n)),
    "every second position": (lambda n, p: floats(p, p + n * 2, 2), lambda n, p: np.arange(p, p + n * 2, 2)),
    "from an expression": (lambda n, p: floats(p * 2 + 1, p * 2 + 1 + n), lambda n, p: np.arange(n) + p * 2 + 1),
}


def module(compute: Callable[..., Any]) -> "tvm.IRModule":
    """A network with two inputs, of which it only reads the dimensions."""
    dimensions = [tvm.tirx.Var(name, "int64") for name in ("n", "past")]
    inputs = [relax.Var(f"of_{each.name}", relax.TensorType([each], "float32")) for each in dimensions]
    builder = relax.BlockBuilder()
    with builder.function("main", inputs):
        with builder.dataflow():
            result = builder.emit_output(op.exp(op.multiply(compute(*dimensions), relax.const(0.1))))
        builder.emit_func_output(result)
    return builder.get()


def kernels(module: "tvm.IRModule") -> int:
    return sum(isinstance(function, tvm.tirx.PrimFunc) for _, function in module.functions_items())


@pytest.mark.parametrize("name", CASES)
def test_what_is_computed_from_dimensions_is_one_kernel_and_right(name: str):
    compute, expected = CASES[name]
    lowered = lower(module(compute), tvm_target(TargetConfig(kind="llvm"), "targets.t"), [], PassOptions(), 2)
    assert kernels(lowered.fused) == 1
    machine = unoptimised_machine(lowered.fused)
    for sizes in ((1, 0), (3, 5), (17, 1)):
        found: Any = machine["main"](*(tvm.runtime.tensor(np.zeros(size, np.float32)) for size in sizes))
        np.testing.assert_allclose(found.numpy(), np.exp(0.1 * expected(*sizes)), rtol=1e-5)


def test_dimensions_that_kernels_take_are_lowered_for_gpus():
    compute, _ = CASES["positions"]
    target = tvm_target(TargetConfig(tag="adreno-730-buffer"), "targets.t")
    assert kernels(lower(module(compute), target, [], PassOptions(), 2).fused) == 1
