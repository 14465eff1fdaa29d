"""Products of 8-bit integers are computed four at a time, exactly."""

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.networks.transports import intel_icd
from tests.requirements import need
from tests.targets.adreno.nets import BUFFER, executable, lowered, modules, op, tensor
from tests.targets.gpu.nets import error, taken
from tvmake.targets.gpu import dot_products
from tvmake.targets.gpu.dot_products import NAME, SIGNS, with_cuda_functions, with_opencl_functions
from tvmake.targets.gpu.products import Products

NVIDIA, CUDA = "opencl-nvidia", "cuda-sm90"

PAIRS = [(left, right) for left in SIGNS for right in SIGNS]


def conv(data: Any, weight: Any) -> Any:
    return op.nn.conv2d(data, weight, padding=1, out_dtype="int32")


def product(data: Any, weight: Any) -> Any:
    return op.matmul(data, weight, out_dtype="int32")


def rescaled(data: Any, weight: Any, scale: Any) -> Any:
    return op.astype(op.clip(op.round(op.multiply(op.astype(conv(data, weight), "float32"), scale)), 0, 255), "uint8")


def kernels(left: str, right: str) -> dict[str, Any]:
    return {
        "convolution": (conv, tensor(1, 16, 14, 14, dtype=left), tensor(24, 16, 3, 3, dtype=right)),
        "a long sum, shared by threads": (conv, tensor(1, 160, 7, 7, dtype=left), tensor(48, 160, 3, 3, dtype=right)),
        "a sum of no multiple of four": (product, tensor(17, 61, dtype=left), tensor(61, 40, dtype=right)),
        "transposed weights": (
            lambda x, w: product(x, op.permute_dims(w)), tensor(17, 40, dtype=left), tensor(72, 40, dtype=right)
        ),
        "what follows": (
            rescaled, tensor(1, 16, 14, 14, dtype=left), tensor(24, 16, 3, 3, dtype=right), tensor(1, 24, 1, 1)
        ),
    }  # fmt: skip


def exact(name: str) -> None:
    """Fails where a kernel of a pair of types is not what plain loops compute."""
    for left, right in PAIRS:
        for what, (expression, *inputs) in kernels(left, right).items():
            assert taken(Products(), expression, *inputs, name=name), (what, left, right)
            assert NAME in source(expression, *inputs, name=name), (what, left, right)
            assert error(expression, *inputs, name=name) == 0, (what, left, right)


def source(expression: Any, *inputs: Any, name: str) -> str:
    built = executable(lowered(expression, *inputs, name=name), name).mod
    return "".join(part.inspect_source("") for part in modules(built) if part.kind in ("opencl", "cuda"))


@pytest.mark.parametrize("name", [NVIDIA, BUFFER])
def test_sums_are_exact_without_the_instruction(name: str):
    need("PoCL")
    exact(name)


def exact_with_instruction() -> None:
    """The same, where source without the instruction would not compile."""
    written = dot_products._opencl_function
    dot_products._opencl_function = lambda *pair: written(*pair).replace("#else\n", "#else\n#error none\n")
    exact(BUFFER)


def test_sums_are_exact_with_the_instruction():
    """Intel's driver has it, in OpenCL C 3.0."""
    environment = {"OCL_ICD_VENDORS": str(intel_icd()), "CL_CONFIG_CPU_VECTORIZER_MODE": "1"}
    code = "from tests.targets.gpu.test_dot_products import exact_with_instruction; exact_with_instruction()"
    unset = {key: value for key, value in os.environ.items() if key != "TVMAKE_OPENCL_PLATFORM"}
    done = subprocess.run([sys.executable, "-c", code], env={**unset, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_cuda_has_the_instruction_from_its_first_processor_on(left: str, right: str):
    letters = {"int8": "s32", "uint8": "u32"}
    code = source(conv, tensor(1, 16, 14, 14, dtype=left), tensor(24, 16, 3, 3, dtype=right), name=CUDA)
    assert f"dp4a.{letters[left]}.{letters[right]} " in code
    assert code.count(f"int {NAME}") == 1


def test_a_kernel_defines_what_it_calls_alone():
    assert with_opencl_functions("no products") == with_cuda_functions("no products") == "no products"
    assert with_opencl_functions(f"{NAME}su(a, b, c)").count(f"int {NAME}") == 1


def test_products_of_other_types_are_not_dot_products():
    for dtype in ("int8", "uint8"):
        inputs = (tensor(20, 30, dtype=dtype), tensor(30, 40, dtype=dtype))
        assert NAME not in source(
            lambda x, w: op.matmul(op.astype(x, "int16"), op.astype(w, "int16")), *inputs, name=NVIDIA
        )
