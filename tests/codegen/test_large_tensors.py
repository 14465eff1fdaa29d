"""Networks with tensors that the target's memory cannot hold are refused before their kernels are compiled."""

from typing import Any

import pytest

from tests.tune.dynamic import F32, dim, op
from tests.tune.graphs import CPU, graph, kept
from tvmake.codegen.lowering import LoweringOptions, lower_function
from tvmake.errors import InputError
from tvmake.targets.cpu.backend import CpuBackend
from tvmake.targets.memory import Memory
from tvmake.targets.options import TargetOptions

GIB = 1 << 30


def lower_within(byte_count: int, expression: Any, *inputs: Any) -> Any:
    """A network lowered for a machine with this memory."""
    module = kept(graph(expression, *inputs))
    return lower_function(module, LoweringOptions(CPU, inputs=len(inputs), memory=Memory(byte_count, "there is less")))


def exponentials(x: Any) -> Any:
    return op.exp(x)


def test_the_error_names_the_tensor_its_size_and_the_limit():
    with pytest.raises(InputError) as error:
        lower_within(2 * GIB, lambda x: op.matmul(x, op.permute_dims(x)), ((1 << 15, 8), F32))
    assert "the result of kernel" in error.value.problem
    assert "float32 [32768, 32768], takes 4.0 GiB, and there is less" in error.value.problem
    assert "`dims: {NAME: SIZE}`" in (error.value.remedy or "")


def test_tensors_that_fusion_removes_do_not_count():
    def sum_of_outer_products(x: Any) -> Any:
        return op.sum(op.multiply(op.expand_dims(x, 0), op.expand_dims(x, 1)), 1)

    assert lower_within(2 * GIB, sum_of_outer_products, ((1 << 15,), F32))


def test_dynamic_dimensions_count_as_one_element():
    assert lower_within(GIB, exponentials, ((dim("batch"), 1 << 20), F32))
    with pytest.raises(InputError, match=r"\[batch, 1073741824\]"):
        lower_within(GIB, exponentials, ((dim("batch"), GIB), F32))


@pytest.mark.parametrize(
    ("options", "least", "most"),
    [
        ({"kind": "llvm", "mcpu": "native"}, 1 << 28, 1 << 46),
        ({"kind": "llvm", "mcpu": "skylake"}, 1 << 47, 1 << 47),
        ({"kind": "llvm", "mtriple": "armv7a-linux-gnueabihf"}, 1 << 31, 1 << 31),
    ],
)
def test_the_limit_is_this_machines_memory_or_the_targets_addresses(options: dict[str, str], least: int, most: int):
    assert least <= CpuBackend().memory(TargetOptions(**options)).byte_count <= most
