"""Dot products of four 8-bit integers with 32-bit sums: NVIDIA's ``dp4a`` (PTX ISA, "dp4a")."""

from functools import cache
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.targets.gpu.machine import compute_capability
from tvmake.targets.gpu.products import DOT_LENGTH

from tvm.script import tirx as T  # isort: skip
from tvm.s_tir import TensorIntrin  # isort: skip

SUM = "int32"
"""The dtype of sums."""

SIGNS = {"int8": "s", "uint8": "u"}
"""The dtypes of values, with their letters in names."""

NAME = "tvmake_dot_"
"""Prefix of the functions in a kernel's source, before the letters of both types."""

OLDEST = 61
"""Ten times the compute capability of the first GPUs with the instruction."""

HOOK = "tvm_callback_cuda_postproc"
"""TVM calls it with the source of all kernels and the target."""


def dot_intrinsic(contraction: Any, target: "tvm.target.Target") -> str | None:
    """The intrinsic that adds four products of a block's operands, in registers, to a sum.

    None unless the operands are 8-bit integers with 32-bit sums, and the GPU has the instruction.
    """
    if compute_capability(target) < OLDEST:
        return None
    operands = [dtype_name(load.source) for load in contraction.operands]
    are_integers = all(operand in SIGNS for operand in operands) and dtype_name(contraction.block.body.buffer) == SUM
    return _register(*operands) if are_integers else None


def register_dot_products() -> None:
    """Register all of the intrinsics, so that traces may name them."""
    for left in SIGNS:
        for right in SIGNS:
            _register(left, right)


@cache
def install() -> None:
    """Define the called functions in the CUDA source of this process' kernels."""
    if tvm_ffi.get_global_func(HOOK, allow_missing=True) is None:
        tvm_ffi.register_global_func(HOOK, lambda source, _target: with_functions(str(source)))


def with_functions(source: str) -> str:
    """Prepend the functions that a CUDA source calls."""
    pairs = [(left, right) for left in SIGNS for right in SIGNS if _name(left, right) in source]
    return "".join(_function(*pair) for pair in pairs) + source


def _name(left: str, right: str) -> str:
    return f"{NAME}{SIGNS[left]}{SIGNS[right]}"


def _function(left: str, right: str) -> str:
    types = {"int8": ("int", "s32"), "uint8": ("unsigned int", "u32")}
    (a, letters_a), (b, letters_b) = types[left], types[right]
    return f"""\
static __device__ __forceinline__ int {_name(left, right)}({a} a, {b} b, int c) {{
  int d;
  asm("dp4a.{letters_a}.{letters_b} %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}}
"""


@cache
def _register(left: str, right: str) -> str:
    name = f"tvmake.dot.{left}.{right}"
    TensorIntrin.register(name, *_intrinsic(left, right), override=True)
    return name


def _intrinsic(left: str, right: str) -> tuple[Any, Any]:
    function = _name(left, right)

    @T.prim_func(s_tir=True)
    def formula(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (DOT_LENGTH,), left, offset_factor=1, scope="local")
        B = T.match_buffer(b, (DOT_LENGTH,), right, offset_factor=1, scope="local")
        C = T.match_buffer(c, (1,), SUM, offset_factor=1, scope="local")
        with T.sblock("root"):
            T.reads(C[0], A[0:DOT_LENGTH], B[0:DOT_LENGTH])
            T.writes(C[0])
            for i in range(DOT_LENGTH):
                with T.sblock("multiply"):
                    vi = T.axis.remap("R", [i])
                    C[0] = C[0] + T.Cast(SUM, A[vi]) * T.Cast(SUM, B[vi])

    @T.prim_func(s_tir=True)
    def instruction(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (DOT_LENGTH,), left, offset_factor=1, scope="local")
        B = T.match_buffer(b, (DOT_LENGTH,), right, offset_factor=1, scope="local")
        C = T.match_buffer(c, (1,), SUM, offset_factor=1, scope="local")
        with T.sblock("root"):
            T.reads(C[0], A[0:DOT_LENGTH], B[0:DOT_LENGTH])
            T.writes(C[0])
            C[0] = T.call_pure_extern(
                function, A.vload([0], f"{left}x{DOT_LENGTH}"), B.vload([0], f"{right}x{DOT_LENGTH}"), C[0], dtype=SUM
            )

    return formula, instruction
