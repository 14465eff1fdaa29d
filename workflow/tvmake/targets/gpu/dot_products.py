"""Products of four 8-bit integers at a time, added up in 32 bits.

GPUs have an instruction for them: NVIDIA's ``dp4a`` from compute capability 6.1 on, and what OpenCL calls
``cl_khr_integer_dot_product``, which Adreno 6xx, Mali Valhall and others have. Whether it is there, the compiler of the device says:
the source holds the same sum without it.
"""

from functools import cache
from typing import Any

import tvm_ffi

from tvmake.ir.expressions import dtype_name

from tvm.script import tirx as T  # isort: skip
from tvm.s_tir import TensorIntrin  # isort: skip

LANES = 4
"""Values that are multiplied at once."""

SUM = "int32"
"""The type of sums."""

SIGNS = {"int8": "s", "uint8": "u"}
"""The types of values, with the letters that they have in names."""

NAME = "tvmake_dot_"
"""What the functions in a kernel's source are called, before the letters of both types."""

CUDA_HOOK = "tvm_callback_cuda_postproc"
"""TVM calls it with the source of all kernels and the target."""


def are_dot_products(contraction: Any) -> bool:
    """Whether a block multiplies 8-bit integers, and adds up in 32 bits."""
    operands = (dtype_name(load.source) for load in contraction.operands)
    return all(operand in SIGNS for operand in operands) and dtype_name(contraction.block.body.buffer) == SUM


def dot_product(contraction: Any) -> str:
    """The name of the intrinsic that adds four products of a block's operands, in registers, to a sum."""
    return _registered(*(dtype_name(load.source) for load in contraction.operands))


def register_dot_products() -> None:
    """Register all of the intrinsics, so that traces may name them."""
    for left in SIGNS:
        for right in SIGNS:
            _registered(left, right)


@cache
def install_for_cuda() -> None:
    """Have the CUDA source of this process' kernels define what they call."""
    if tvm_ffi.get_global_func(CUDA_HOOK, allow_missing=True) is None:
        tvm_ffi.register_global_func(CUDA_HOOK, lambda source, _target: with_cuda_functions(str(source)))


def with_cuda_functions(source: str) -> str:
    """CUDA source with the functions that it calls."""
    return _with_functions(source, _cuda_function)


def with_opencl_functions(source: str) -> str:
    """OpenCL source with the functions that it calls."""
    return _with_functions(source, _opencl_function)


def _with_functions(source: str, function: Any) -> str:
    pairs = [(left, right) for left in SIGNS for right in SIGNS if _name(left, right) in source]
    return "".join(function(*pair) for pair in pairs) + source


def _name(left: str, right: str) -> str:
    return f"{NAME}{SIGNS[left]}{SIGNS[right]}"


def _opencl_function(left: str, right: str) -> str:
    types = {"int8": "char4", "uint8": "uchar4"}
    result = "uint" if left == right == "uint8" else "int"
    letters = f"{SIGNS[left]}{SIGNS[right]}"
    return f"""\
int {_name(left, right)}({types[left]} a, {types[right]} b, int c) {{
#ifdef __opencl_c_integer_dot_product_input_4x8bit_packed
  return c + (int)dot_4x8packed_{letters}_{result}(as_uint(a), as_uint(b));
#else
  return c + (int)a.s0 * b.s0 + (int)a.s1 * b.s1 + (int)a.s2 * b.s2 + (int)a.s3 * b.s3;
#endif
}}
"""


def _cuda_function(left: str, right: str) -> str:
    types = {"int8": ("int", "signed char", "s32"), "uint8": ("unsigned int", "unsigned char", "u32")}
    (a, of_a, letters_a), (b, of_b, letters_b) = types[left], types[right]
    terms = " + ".join(f"({of_a})(a >> {shift}) * ({of_b})(b >> {shift})" for shift in (0, 8, 16, 24))
    return f"""\
static __device__ __forceinline__ int {_name(left, right)}({a} a, {b} b, int c) {{
#if __CUDA_ARCH__ >= 610
  int d;
  asm("dp4a.{letters_a}.{letters_b} %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
#else
  return c + {terms};
#endif
}}
"""


@cache
def _registered(left: str, right: str) -> str:
    name = f"tvmake.dot.{left}.{right}"
    TensorIntrin.register(name, *_intrinsic(left, right), override=True)
    return name


def _intrinsic(left: str, right: str) -> tuple[Any, Any]:
    function = _name(left, right)

    @T.prim_func(s_tir=True)
    def formula(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (LANES,), left, offset_factor=1, scope="local")
        B = T.match_buffer(b, (LANES,), right, offset_factor=1, scope="local")
        C = T.match_buffer(c, (1,), SUM, offset_factor=1, scope="local")
        with T.sblock("root"):
            T.reads(C[0], A[0:LANES], B[0:LANES])
            T.writes(C[0])
            for i in range(LANES):
                with T.sblock("multiply"):
                    vi = T.axis.remap("R", [i])
                    C[0] = C[0] + T.Cast(SUM, A[vi]) * T.Cast(SUM, B[vi])

    @T.prim_func(s_tir=True)
    def instruction(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (LANES,), left, offset_factor=1, scope="local")
        B = T.match_buffer(b, (LANES,), right, offset_factor=1, scope="local")
        C = T.match_buffer(c, (1,), SUM, offset_factor=1, scope="local")
        with T.sblock("root"):
            T.reads(C[0], A[0:LANES], B[0:LANES])
            T.writes(C[0])
            C[0] = T.call_pure_extern(
                function, A.vload([0], f"{left}x{LANES}"), B.vload([0], f"{right}x{LANES}"), C[0], dtype=SUM
            )

    return formula, instruction
