"""Integer divisions by zero do not end the process, and other divisions stay unchanged."""

import os

import numpy as np
import pytest
import torch
import tvm
from torch.overrides import TorchFunctionMode

from tests.unoptimised import unoptimised_machine
from tvmake.codegen.generating import lower_and_generate
from tvmake.config.requests.building import BuildRequest
from tvmake.config.target import TargetConfig
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.ir.expressions import bindings, operator_name
from tvmake.quantize.precision import PrecisionConfig
from tvmake.targets.resolve import tvm_target
from tvmake.transform.graph import transform
from tvmake.transform.numbers.special_values import divide_by_no_zero
from tvmake.transform.options import TransformRequest

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
    machine = unoptimised_machine(divide_by_no_zero(of_two(operator)))
    result = machine["main"](tvm.runtime.tensor(A), tvm.runtime.tensor(B)).numpy()
    np.testing.assert_array_equal(result, expected)


def test_safe_divisions_stay_unchanged():
    for module in (of_two("divide", "float32"), of_two("floor_divide", divisor=np.array([1, 2, 3, -4], "int32"))):
        assert operators(divide_by_no_zero(module)) == operators(module)
    assert operators(divide_by_no_zero(of_two("mod", divisor=B))) != ["mod"]


def test_a_where_around_the_division_keeps_its_guard():
    builder = relax.BlockBuilder()
    a, b = (relax.Var(name, relax.TensorType([4], "int32")) for name in "ab")
    with builder.function("main", [a, b]):
        with builder.dataflow():
            is_zero = builder.emit(relax.op.equal(b, relax.const(0, "int32")))
            quotient = builder.emit(relax.op.floor_divide(a, b))
            result = builder.emit_output(relax.op.where(is_zero, relax.const(9, "int32"), quotient))
        builder.emit_func_output(result)
    fused = relax.get_pipeline("zero")(divide_by_no_zero(builder.get()))
    machine = unoptimised_machine(fused)
    result = machine["main"](tvm.runtime.tensor(A), tvm.runtime.tensor(B)).numpy()
    np.testing.assert_array_equal(result, [3, -4, 9, 9])


@pytest.mark.parametrize("operator", ["divide", "floor_divide", "mod", "floor_mod"])
def test_division_by_a_constant_zero_is_as_in_numpy(operator: str):
    module = divide_by_no_zero(of_two(operator, "float32", np.array(0, "float32")))
    machine = unoptimised_machine(module)
    given = np.array([2, -3, 0, np.inf], "float32")
    result = machine["main"](tvm.runtime.tensor(given), tvm.runtime.tensor(given)).numpy()
    with np.errstate(all="ignore"):
        expected = given / np.float32(0) if "div" in operator else np.full(4, np.nan)
    np.testing.assert_array_equal(result, expected)


CHOICES = {
    "the divisor's own": lambda x, y: torch.where(y != 0, x // torch.where(y != 0, y, 1), -1),
    "above zero": lambda x, y: torch.where(y > 0, x // torch.where(y > 0, y, 1), -1),
    "zero": lambda x, y: torch.where(y == 0, x, x % torch.where(y == 0, 1, y)),
    "without a guard": lambda x, y: torch.where(y.abs() >= 1, x // y, y),
    "in another": lambda x, y: torch.where(x > 0, torch.where(y == 0, 0, x // y), torch.where(y == 0, 1, x % y)),
    "twice": lambda x, y: torch.where(y != 0, torch.where(x % y != 0, y // (x % y), 7), x),
    "clamped": lambda x, y: torch.where(y < 1, 0, x // y.clamp(min=1)),
    "of both": lambda x, y: torch.where((y != 0) & (x > 0), x // torch.where(y != 0, y, 1), -1),
}


class Divided(TorchFunctionMode):
    """PyTorch's divisions by zero give what divisions by one do, where it raises an error."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in (
            torch.Tensor.__floordiv__,
            torch.Tensor.__mod__,
            torch.Tensor.floor_divide,
            torch.Tensor.remainder,
        ):
            args = (args[0], torch.where(args[1] == 0, 1, args[1]))
        return function(*args, **(kwargs or {}))


class Chosen(torch.nn.Module):
    """A function as a network."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", CHOICES)
def test_no_where_around_a_division_removes_its_guard(name: str, dtype: torch.dtype):
    """In a separate process, which a division by zero would end."""
    x = (torch.arange(-8, 8) * 7).to(dtype)
    y = torch.tensor([0, 1, -1, 2, 0, 3, -3, 0, 5, 0, -7, 8, 0, 0, 1, 2], dtype=dtype)
    program = torch.export.export(Chosen(CHOICES[name]), (x, torch.ones_like(y)))
    imported = read(program, ImportOptions(source="net", trusted=True))
    request = TransformRequest(precision=PrecisionConfig(base="float32"))
    module, _ = transform(imported.module, imported.params, request)
    config = TargetConfig(kind="llvm")
    built = BuildRequest(model="net", precision="float32", target_name="t", target=config)
    _, executable = lower_and_generate(module, tvm_target(config, "targets.t"), built, 2)
    reading, writing = os.pipe()
    if not (child := os.fork()):
        machine = relax.VirtualMachine(executable, tvm.cpu())
        os.write(writing, machine["main"](*(tvm.runtime.tensor(one.numpy()) for one in (x, y))).numpy().tobytes())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        found = np.frombuffer(answer.read(), x.numpy().dtype)
    assert os.waitpid(child, 0)[1] == 0
    with Divided():
        expected = CHOICES[name](x, y)
    assert found.tolist() == expected.tolist()
