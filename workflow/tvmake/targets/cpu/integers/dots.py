"""A CPU's instructions that multiply 8-bit integers and add up neighbouring products: int32 += Σ data · weight.

- ``vpdpbusd`` (AVX-512 VNNI, AVX-VNNI): four products per lane, unsigned data, signed weights.
- ``sdot``, and ``usdot`` for unsigned data (Arm's dotprod and i8mm): the same.
- ``pmaddwd`` (any x86): two products per lane, of values widened to 16 bits. ``pmaddubsw`` takes four, but its sums of
  pairs overflow 16 bits.
- ``saddlp`` (any 64-bit Arm): two 16-bit products per lane; the product of two 8-bit values fits in 16 bits.

All of them are exact: the largest sum of four products is 4 · 255 · 128.
Repair: `x86-dot-intrinsics`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm

from tvm.script import tirx as T  # isort: skip
from tvm.s_tir import TensorIntrin  # isort: skip


@dataclass(frozen=True)
class Dot:
    """One instruction."""

    llvm: str
    """LLVM's name of the instruction."""
    lanes: int
    """Number of int32 accumulators."""
    group: int
    """Number of products added to each accumulator; their factors are adjacent in memory."""
    data: tuple[str, ...]
    """Dtypes of the first operand; the second one is int8."""
    multiplies: bool = True
    """Whether it multiplies; otherwise it adds neighbouring 16-bit products."""

    def intrinsic(self, data: str) -> str:
        """The intrinsic's name in schedules."""
        return f"tvmake.{self.llvm.removeprefix('llvm.')}.{data}"


_VNNI = [Dot(f"llvm.x86.avx512.vpdpbusd.{lanes * 32}", lanes, 4, ("uint8",)) for lanes in (16, 8, 4)]
_PMADDWD = [
    Dot("llvm.x86.avx512.pmaddw.d.512", 16, 2, ("uint8", "int8")),
    Dot("llvm.x86.avx2.pmadd.wd", 8, 2, ("uint8", "int8")),
    Dot("llvm.x86.sse2.pmadd.wd", 4, 2, ("uint8", "int8")),
]
_SDOT = Dot("llvm.aarch64.neon.sdot.v4i32.v16i8", 4, 4, ("int8",))
_USDOT = Dot("llvm.aarch64.neon.usdot.v4i32.v16i8", 4, 4, ("uint8",))
_SADDLP = Dot("llvm.aarch64.neon.saddlp.v4i32.v8i16", 4, 2, ("uint8", "int8"), multiplies=False)

_BY_FEATURES: Sequence[tuple[tuple[str, ...], Sequence[Dot]]] = (
    (("avx512vnni", "avx512vl"), _VNNI),
    (("avxvnni", "avx2"), _VNNI[1:]),
    (("avx512bw",), _PMADDWD),
    (("avx2",), _PMADDWD[1:]),
    (("sse4.1",), _PMADDWD[2:]),
    (("dotprod", "i8mm"), [_SDOT, _USDOT]),
    (("dotprod",), [_SDOT]),
    (("neon",), [_SADDLP]),
)
"""LLVM's features, the best first."""


def dots(target: "tvm.target.Target") -> Sequence[Dot]:
    """The instructions of a target's CPU, the widest first; empty if it has none.

    Registers their intrinsics, so that schedules and traces may name them.
    """
    for features, instructions in _BY_FEATURES:
        if all(tvm.target.codegen.target_has_features(feature, target) for feature in features):
            register_intrinsics(instructions)
            return instructions
    return ()


def register_intrinsics(wanted: Sequence[Dot]) -> None:
    """Register intrinsics, so that schedules may name them."""
    for dot in wanted:
        for data in dot.data:
            _register(dot, data)


@cache
def _register(dot: Dot, data: str) -> None:
    TensorIntrin.register(dot.intrinsic(data), _formula(dot, data), _instruction(dot, data), override=True)


def _formula(dot: Dot, data: str) -> Any:
    lanes, group = dot.lanes, dot.group

    @T.prim_func(s_tir=True)
    def formula(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (group,), data, offset_factor=1)
        B = T.match_buffer(b, (lanes, group), "int8", offset_factor=1)
        C = T.match_buffer(c, (lanes,), "int32", offset_factor=1)
        with T.sblock("root"):
            T.reads(C[0:lanes], A[0:group], B[0:lanes, 0:group])
            T.writes(C[0:lanes])
            for i in T.serial(0, lanes):
                for k in T.serial(0, group):
                    with T.sblock("update"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        C[vi] = C[vi] + T.cast(A[vk], "int32") * T.cast(B[vi, vk], "int32")

    return formula


def _instruction(dot: Dot, data: str) -> Any:
    lanes, group = dot.lanes, dot.group
    number = int(tvm.target.codegen.llvm_lookup_intrinsic_id(dot.llvm))
    few, bytes_, weights, sums = (
        f"{data}x{group}",
        f"{data}x{group * lanes}",
        f"int8x{group * lanes}",
        f"int32x{lanes}",
    )
    whole, wide = f"int{8 * group}", f"int16x{group * lanes}"

    def added(before: Any, left: Any, right: Any) -> Any:
        if group == 4:
            return T.call_llvm_pure_intrin(number, before, left, right, dtype=sums)
        left, right = T.Cast(wide, left), T.Cast(wide, right)
        operands = (left, right) if dot.multiplies else (left * right,)
        return before + T.call_llvm_pure_intrin(number, *operands, dtype=sums)

    @T.prim_func(s_tir=True)
    def instruction(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (group,), data, offset_factor=1)
        B = T.match_buffer(b, (lanes, group), "int8", offset_factor=1)
        C = T.match_buffer(c, (lanes,), "int32", offset_factor=1)
        with T.sblock("root"):
            T.reads(C[0:lanes], A[0:group], B[0:lanes, 0:group])
            T.writes(C[0:lanes])
            C[T.ramp(T.int32(0), 1, lanes)] = added(
                C.vload([0], dtype=sums),
                T.reinterpret(T.broadcast(T.reinterpret(A.vload([0], few), dtype=whole), lanes), dtype=bytes_),
                B.vload([0, 0], dtype=weights),
            )

    return instruction
