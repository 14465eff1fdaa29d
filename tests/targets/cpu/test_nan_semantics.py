"""NaN on CPUs propagates through extrema of two values, and is unequal to everything."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import tvm
from torch import Tensor

from tests.frontend.torch.running import as_built
from tests.targets.cpu.schedules.nets import NATIVE
from tvmake.targets.cpu.nan_semantics import propagate_nan

tirx = tvm.tirx

EDGES = torch.tensor([torch.nan, 1.5, -2.0, 0.0, -0.0, torch.inf, -torch.inf, 7.0]).repeat(7)[:53]
OTHERS = EDGES.roll(3)

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "clamp to one side": lambda x: x.clamp(max=0.5),
    "clamp to tensors": lambda x: x.clamp(OTHERS - 1, OTHERS + 1),
    "maximum": lambda x: torch.maximum(x, OTHERS),
    "minimum": lambda x: torch.minimum(OTHERS, x),
    "elu": F.elu,
    "hardsigmoid": F.hardsigmoid,
    "softshrink": F.softshrink,
    "differs": lambda x: x != OTHERS,
    "differs from a number": lambda x: torch.where(x != 0, 1.0, x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_is_what_pytorch_makes_of_it(name: str):
    function = FUNCTIONS[name]
    np.testing.assert_array_equal(as_built(function, EDGES), function(EDGES).numpy())


def test_poolings_and_rows_leave_nan_out_and_keep_what_was_before():
    rows = torch.tensor([[5.0, torch.nan, 1.0, 2.0], [torch.nan, 3.0, 4.0, torch.nan]])
    np.testing.assert_array_equal(as_built(lambda x: x.amax(1), rows), [5, 4])
    np.testing.assert_array_equal(as_built(lambda x: F.max_pool1d(x, 2), rows), [[5, 2], [3, 4]])


def kernel(expression: Callable[[Any, Any], Any], target: Any) -> Any:
    a, b = (tvm.te.placeholder((64,), name=name) for name in "ab")
    made = tvm.te.create_prim_func([a, b, tvm.te.compute((64,), lambda i: expression(a[i], b[i]))])
    return tvm.IRModule({"main": made.with_attr("target", target)})


ARM = tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu"})


def test_arm_takes_its_instruction():
    assert "llvm.maximum" in propagate_nan(kernel(tirx.Max, ARM)).script()
    assert "llvm.maximum" not in propagate_nan(kernel(tirx.Max, NATIVE)).script()


def test_whole_numbers_stay():
    module = kernel(lambda a, b: tirx.Max(a.astype("int32"), b.astype("int32")), NATIVE)
    assert propagate_nan(module)["main"].body.same_as(module["main"].body)


def test_dimensions_are_numbers_and_variables_are_not_bound_again():
    """TVM visits conditions twice, and would see bindings inside them as duplicates."""
    module = kernel(
        lambda a, _: tirx.if_then_else(tirx.Min(a, tirx.Var("n", "int64").astype("float32")) > 1, a, a), NATIVE
    )
    assert "Let" not in propagate_nan(module).script()
    variable = tirx.Var("v", "float32")
    function = module["main"].with_body(tirx.Evaluate(tirx.Max(tirx.const(1.0, "float32") * variable, variable)))
    assert "Let" not in propagate_nan(tvm.IRModule({"main": function})).script()
