"""Matmuls and convolutions of 8-bit integers as networks for CPUs, and their results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.targets.cpu.schedules.nets import NATIVE, lowered, result
from tests.tune.graphs import Shape

op = tvm.relax.op

PORTABLE = tvm.target.Target({"kind": "llvm"})

TARGETS = {
    "VNNI": {"mcpu": "cascadelake"},
    "AVX-512": {"mcpu": "x86-64-v4"},
    "AVX2": {"mcpu": "x86-64-v3"},
    "SSE4": {"mcpu": "x86-64-v2"},
}
"""Targets that this machine may run, by instruction set."""

FEATURES = {"VNNI": "avx512vnni", "AVX-512": "avx512bw", "AVX2": "avx2", "SSE4": "sse4.1"}


def target_of(name: str) -> "tvm.target.Target":
    """A target of this architecture; skips the test if this machine cannot run its code."""
    if not tvm.target.codegen.target_has_features(FEATURES[name], NATIVE):
        pytest.skip(f"this machine has no {name}")
    return tvm.target.Target({"kind": "llvm", **TARGETS[name]})


def instructions(made: Any) -> set[str]:
    """The dot-product instructions that kernels use."""
    found: set[str] = set()

    def note(call: Any) -> None:
        if getattr(call.op, "name", "") == "tirx.call_llvm_pure_intrin":
            found.add(str(tvm.target.codegen.llvm_get_intrinsic_name(int(call.args[0]))))

    for _, function in made.fused.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            tvm_ffi.structural_walk(function.body, (tvm.ir.Call, note))
    return found


def tensor(*shape: int, dtype: str) -> Shape:
    return shape, dtype


def requantized(sums: Any, scale: Any) -> Any:
    """Sums requantised to 8 bits, as in a quantised network."""
    steps = op.round(op.multiply(op.astype(sums, "float32"), scale))
    least, most = (tvm.relax.const(value, "float32") for value in (0.0, 255.0))
    return op.astype(op.maximum(op.minimum(steps, most), least), "uint8")


def convolution(x: Any, w: Any, **options: Any) -> Any:
    return op.nn.conv2d(x, w, **{"padding": 1, **options}, out_dtype="int32")


def convolution_requantized(x: Any, w: Any, scale: Any) -> Any:
    return requantized(convolution(x, w), scale)


def residual(x: Any, w: Any, scale: Any) -> Any:
    return requantized(op.add(convolution(x, w), op.astype(x, "int32")), scale)


def product(x: Any, w: Any) -> Any:
    return op.matmul(x, w, out_dtype="int32")


Kernel = tuple[Callable[..., Any], Callable[[str], list[Shape]]]
"""An expression, and its inputs by the dtype of the data; all but the first are weights."""

KERNELS: dict[str, Kernel] = {
    "convolution": (convolution, lambda data: [tensor(1, 16, 14, 14, dtype=data), tensor(32, 16, 3, 3, dtype="int8")]),
    "convolution, its result in 8 bits": (
        convolution_requantized,
        lambda data: [
            tensor(1, 16, 9, 14, dtype=data), tensor(24, 16, 3, 3, dtype="int8"), tensor(1, 24, 1, 1, dtype="float32")
        ],
    ),
    "convolution, residual": (
        residual,
        lambda data: [
            tensor(1, 32, 7, 7, dtype=data), tensor(32, 32, 3, 3, dtype="int8"), tensor(1, 32, 1, 1, dtype="float32")
        ],
    ),
    "convolution from images": (
        lambda x, w: convolution(x, w, strides=2, padding=3),
        lambda data: [tensor(1, 3, 31, 33, dtype=data), tensor(64, 3, 7, 7, dtype="int8")],
    ),
    "convolution from grey images": (
        lambda x, w: convolution(x, w, padding=2),
        lambda data: [tensor(2, 1, 9, 13, dtype=data), tensor(32, 1, 5, 5, dtype="int8")],
    ),
    "convolution from grey images, strided": (
        lambda x, w: convolution(x, w, strides=[1, 2], padding=[1, 0, 2, 3], dilation=[1, 2]),
        lambda data: [tensor(1, 1, 9, 14, dtype=data), tensor(16, 1, 3, 3, dtype="int8")],
    ),
    "convolution from two channels": (
        lambda x, w: convolution(x, w, strides=2),
        lambda data: [tensor(1, 2, 9, 14, dtype=data), tensor(10, 2, 3, 3, dtype="int8")],
    ),
    "convolution with uneven padding": (
        lambda x, w: convolution(x, w, strides=2, padding=[0, 1, 2, 1]),
        lambda data: [tensor(2, 8, 10, 11, dtype=data), tensor(16, 8, 3, 3, dtype="int8")],
    ),
    "convolution, dilated": (
        lambda x, w: convolution(x, w, dilation=2, padding=2),
        lambda data: [tensor(1, 8, 10, 10, dtype=data), tensor(8, 8, 3, 3, dtype="int8")],
    ),
    "convolution between primes of channels": (
        convolution, lambda data: [tensor(1, 7, 5, 13, dtype=data), tensor(37, 7, 3, 3, dtype="int8")]
    ),
    "convolution to one channel": (
        convolution, lambda data: [tensor(1, 5, 6, 6, dtype=data), tensor(1, 5, 3, 3, dtype="int8")]
    ),
    "convolution, depthwise": (
        lambda x, w: convolution(x, w, groups=24),
        lambda data: [tensor(1, 24, 14, 14, dtype=data), tensor(24, 1, 3, 3, dtype="int8")],
    ),
    "convolution, grouped": (
        lambda x, w: convolution(x, w, groups=4),
        lambda data: [tensor(1, 64, 7, 9, dtype=data), tensor(64, 16, 3, 3, dtype="int8")],
    ),
    "convolution, grouped, its result in 8 bits": (
        lambda x, w, scale: requantized(convolution(x, w, groups=3, strides=2), scale),
        lambda data: [
            tensor(1, 72, 9, 9, dtype=data), tensor(24, 24, 3, 3, dtype="int8"), tensor(1, 24, 1, 1, dtype="float32")
        ],
    ),
    "convolution, grouped by four": (
        lambda x, w: convolution(x, w, groups=5),
        lambda data: [tensor(2, 20, 6, 6, dtype=data), tensor(20, 4, 3, 3, dtype="int8")],
    ),
    "convolution, grouped by awkward numbers": (
        lambda x, w: convolution(x, w, groups=3),
        lambda data: [tensor(1, 15, 6, 6, dtype=data), tensor(21, 5, 3, 3, dtype="int8")],
    ),
    "product": (product, lambda data: [tensor(64, 96, dtype=data), tensor(96, 128, dtype="int8")]),
    "product of a vector": (product, lambda data: [tensor(1, 512, dtype=data), tensor(512, 1000, dtype="int8")]),
    "product with awkward extents": (product, lambda data: [tensor(197, 61, dtype=data), tensor(61, 193, dtype="int8")]),
    "product of a batch": (product, lambda data: [tensor(3, 5, 30, dtype=data), tensor(30, 10, dtype="int8")]),
    "product with transposed weights": (
        lambda x, w: product(x, op.permute_dims(w)),
        lambda data: [tensor(6, 40, dtype=data), tensor(33, 40, dtype="int8")],
    ),
}  # fmt: skip


def values(inputs: list[Shape], seed: int = 0) -> list[np.ndarray]:
    """Values for a kernel's inputs, including extreme ones."""
    draw = np.random.default_rng(seed)
    found = []
    for shape, dtype in inputs:
        if dtype == "float32":
            found.append(draw.uniform(0.001, 0.01, shape).astype(dtype))
            continue
        limits = np.iinfo(dtype)
        drawn = draw.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        extreme = draw.integers(0, 4, shape)
        found.append(np.where(extreme == 0, limits.min, np.where(extreme == 1, limits.max, drawn)).astype(dtype))
    return found


def plain(expression: Any, inputs: list[Shape], arguments: list[np.ndarray]) -> np.ndarray:
    """The result of plain loops."""
    return result(lowered(expression, *inputs, rules=False, target=PORTABLE), arguments, PORTABLE)
