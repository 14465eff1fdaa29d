"""Divisions by zero end no process, and those of others stay as they are."""

import numpy as np
import pytest
import tvm

from tests.unoptimised import UNOPTIMISED
from tvmake.ir.expressions import bindings, operator_name
from tvmake.transform.whole_divisions import divide_by_no_zero

from tvm import relax  # isort: skip

A, B = np.array([7, -7, 5, 0], "int32"), np.array([2, 2, 0, 0], "int32")


def of_two(operator: str, dtype: str = "int32", divisor: np.ndarray | None = None) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    a, b = (relax.Var(name, relax.TensorType([4], dtype)) for name in "ab")
    with builder.function("main", [a, b]):
        with builder.dataflow():
            other = b if divisor is None else relax.const(divisor)
            result = builder.emit_output(getattr(relax.op, operator)(a, other))
        builder.emit_func_output(result)
    return builder.get()


def operators(module: tvm.IRModule) -> list[str]:
    return [name for binding in bindings(module["main"]) if (name := operator_name(binding.value))]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("divide", [3, -3, 5, 0]),
        ("floor_divide", [3, -4, 5, 0]),
        ("mod", [1, -1, 0, 0]),
        ("floor_mod", [1, 1, 0, 0]),
    ],
)
def test_zero_divides_as_one_does(operator: str, expected: list[int]):
    machine = relax.VirtualMachine(tvm.relax.build(divide_by_no_zero(of_two(operator)), target=UNOPTIMISED), tvm.cpu())
    result = machine["main"](tvm.runtime.tensor(A), tvm.runtime.tensor(B)).numpy()
    np.testing.assert_array_equal(result, expected)


def test_what_cannot_be_zero_or_stops_nothing_stays():
    for module in (of_two("divide", "float32"), of_two("floor_divide", divisor=np.array([1, 2, 3, -4], "int32"))):
        assert operators(divide_by_no_zero(module)) == operators(module)
    assert operators(divide_by_no_zero(of_two("mod", divisor=B))) != ["mod"]


def test_a_choice_around_the_division_leaves_its_guard():
    builder = relax.BlockBuilder()
    a, b = (relax.Var(name, relax.TensorType([4], "int32")) for name in "ab")
    with builder.function("main", [a, b]):
        with builder.dataflow():
            is_zero = builder.emit(relax.op.equal(b, relax.const(0, "int32")))
            quotient = builder.emit(relax.op.floor_divide(a, b))
            result = builder.emit_output(relax.op.where(is_zero, relax.const(9, "int32"), quotient))
        builder.emit_func_output(result)
    fused = relax.get_pipeline("zero")(divide_by_no_zero(builder.get()))
    machine = relax.VirtualMachine(tvm.relax.build(fused, target=UNOPTIMISED), tvm.cpu())
    result = machine["main"](tvm.runtime.tensor(A), tvm.runtime.tensor(B)).numpy()
    np.testing.assert_array_equal(result, [3, -4, 9, 9])


@pytest.mark.parametrize("operator", ["divide", "floor_divide", "mod", "floor_mod"])
def test_a_constant_zero_divides_as_numpy_has_it(operator: str):
    module = divide_by_no_zero(of_two(operator, "float32", np.array(0, "float32")))
    machine = relax.VirtualMachine(tvm.relax.build(module, target=UNOPTIMISED), tvm.cpu())
    given = np.array([2, -3, 0, np.inf], "float32")
    result = machine["main"](tvm.runtime.tensor(given), tvm.runtime.tensor(given)).numpy()
    with np.errstate(all="ignore"):
        expected = given / np.float32(0) if "div" in operator else np.full(4, np.nan)
    np.testing.assert_array_equal(result, expected)


def test_tvm_still_stops_at_a_constant_zero():
    with pytest.raises(Exception, match="Divide by zero"):
        relax.transform.LegalizeOps()(of_two("divide", "float32", np.array(0, "float32")))
