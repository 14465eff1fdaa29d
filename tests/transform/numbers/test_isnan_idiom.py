"""Comparisons of a value with itself are false only for NaN."""

import numpy as np
import pytest
import tvm

from tests.unoptimised import compile_unoptimised
from tvmake.ir.expressions import bindings, operator_name
from tvmake.transform.numbers.special_values import ask_for_numbers

from tvm import relax  # isort: skip


def compared(operator: str, dtype: str = "float32", with_itself: bool = True) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    a, b = (relax.Var(name, relax.TensorType([3], dtype)) for name in "ab")
    with builder.function("main", [a, b]):
        with builder.dataflow():
            result = builder.emit_output(getattr(relax.op, operator)(a, a if with_itself else b))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("operator", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_value_compared_with_itself_becomes_isnan(operator: str, dtype: str):
    values = np.array([1.5, np.nan, np.inf], dtype)
    built = compile_unoptimised(ask_for_numbers(compared(operator, dtype)))
    given = tvm.runtime.tensor(values)
    found = relax.VirtualMachine(built, tvm.cpu())["main"](given, given).numpy()
    np.testing.assert_array_equal(found, getattr(np, operator)(values, values))


def test_comparisons_of_two_values_and_of_integers_stay():
    for module in (compared("equal", "int32"), compared("not_equal", with_itself=False)):
        names = [operator_name(binding.value) for binding in bindings(ask_for_numbers(module)["main"])]
        assert "isnan" not in names
