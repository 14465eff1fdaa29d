"""Dot products of four 8-bit integers are exact."""

import subprocess
import sys
from typing import Any

import pytest
import tvm_ffi

from tests.requirements import need
from tests.targets.adreno_texture.nets import executable, lowered, modules, op, target, tensor
from tests.targets.gpu.nets import error, kernels_by_rule
from tests.tune.graphs import graph
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.config.target import TargetConfig
from tvmake.targets import backends
from tvmake.targets.cuda.dot_products import NAME, SIGNS, dot_intrinsic, with_functions
from tvmake.targets.gpu.products import Products
from tvmake.targets.opencl.backend import OpenClBackend
from tvmake.targets.opencl.source import HOOK, install
from tvmake.targets.resolve import tvm_target

NVIDIA, CUDA = "opencl-nvidia", "cuda-sm90"

IN_OPENCL = "".join(
    f"int {NAME}{name}({left} a, {right} b, int c) {{ return c + a.s0 * b.s0 + a.s1 * b.s1 + a.s2 * b.s2 + a.s3 * b.s3; }}\n"
    for name, left, right in (("us", "uchar4", "char4"), ("ss", "char4", "char4"))
)
"""The instruction's result."""

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


def exact() -> None:
    """Fail if a kernel differs from plain loops, on an OpenCL device with the instruction's formula."""
    rule = Products(lambda contraction, _target: dot_intrinsic(contraction, target(CUDA)))

    class WithDotProducts(OpenClBackend):
        def schedule_rules(self) -> list[Any]:
            return [rule, *super().schedule_rules()]

    backends.BY_KIND["opencl"] = WithDotProducts()
    install()
    with_pixels = tvm_ffi.get_global_func(HOOK)
    tvm_ffi.register_global_func(HOOK, lambda text, to: IN_OPENCL + str(with_pixels(text, to)), override=True)
    for left, right in (("uint8", "int8"), ("int8", "int8")):
        for what, (expression, *inputs) in kernels(left, right).items():
            assert kernels_by_rule(rule, expression, *inputs, name=NVIDIA), (what, left, right)
            assert source(expression, *inputs, name=NVIDIA).count(NAME) > 2, (what, left, right)
            assert error(expression, *inputs, name=NVIDIA) == 0, (what, left, right)


def source(expression: Any, *inputs: Any, name: str) -> str:
    built = executable(lowered(expression, *inputs, name=name), name).mod
    return "".join(part.inspect_source("") for part in modules(built) if part.kind in ("opencl", "cuda"))


def test_sums_are_exact():
    need("PoCL")
    code = "from tests.targets.cuda.test_dot_products import exact; exact()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_cuda_has_the_instruction_from_its_first_processor_on(left: str, right: str):
    letters = {"int8": "s32", "uint8": "u32"}
    code = source(conv, tensor(1, 16, 14, 14, dtype=left), tensor(24, 16, 3, 3, dtype=right), name=CUDA)
    assert f"dp4a.{letters[left]}.{letters[right]} " in code
    assert code.count(f"int {NAME}") == 1


def test_older_processors_have_no_such_instruction():
    inputs = (tensor(1, 16, 14, 14, dtype="int8"), tensor(24, 16, 3, 3, dtype="int8"))
    old = tvm_target(TargetConfig(kind="cuda", arch="sm_60"), "targets.t")
    kernel = lower(graph(conv, *inputs), old, [], PassOptions(), 1).final
    assert NAME not in kernel.script()


def test_a_kernel_defines_what_it_calls_alone():
    assert with_functions("no products") == "no products"
    assert with_functions(f"{NAME}su(a, b, c)").count(f"int {NAME}") == 1


def test_matmuls_of_other_types_are_not_dot_products():
    for dtype in ("int8", "uint8"):
        inputs = (tensor(20, 30, dtype=dtype), tensor(30, 40, dtype=dtype))
        assert NAME not in source(
            lambda x, w: op.matmul(op.astype(x, "int16"), op.astype(w, "int16")), *inputs, name=CUDA
        )
