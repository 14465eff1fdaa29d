"""Properties of a CPU that schedules need."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name
from tvmake.targets.cpu.half_precision import HALF, computes_half
from tvmake.targets.cpu.integers.dots import Dot, dots
from tvmake.targets.cpu.schedules.accesses import bits

WIDTHS = (("avx512f", 64, 32), ("avx", 32, 16), ("sve", 16, 32), ("neon", 16, 32), ("sse2", 16, 16))
"""LLVM's features, widest first, with bytes per vector register and number of registers. For SVE, 16 bytes is the width
that every machine has."""

HALVED = frozenset({"znver4"})
"""CPUs that compute vectors of 64 bytes in halves (AMD, "Software Optimization Guide for the AMD Zen4 Microarchitecture", 2023)."""

STACK_BYTES = 1024
"""Buffers below this size are on the stack, where LLVM can keep them in registers: ``kMaxStackAlloca``, TVM's
include/tvm/runtime/device_api.h."""


@dataclass(frozen=True)
class Machine:
    """A CPU's vector unit."""

    vector_bytes: int = 16
    registers: int = 16
    dots: Sequence[Dot] = ()
    """Its dot-product instructions for 8-bit integers."""
    computes_half: bool = False
    """Whether it has float16 arithmetic."""
    is_halved: bool = False
    """Whether it computes vectors in halves."""

    def bits(self, typed: Any) -> int:
        """Bits per element in a register: float16 is computed in float32 if the CPU has no float16 arithmetic."""
        return 32 if dtype_name(typed) == HALF and not self.computes_half else bits(typed)

    def lanes(self, bits: int) -> int:
        """Elements of ``bits`` bits in a vector."""
        return max(1, self.vector_bytes * 8 // bits)

    @property
    def path_bytes(self) -> int:
        """Bytes computed at once."""
        return self.vector_bytes // (2 if self.is_halved else 1)

    @property
    def accumulators(self) -> int:
        """Vectors that a kernel may use as accumulators, leaving some registers for operands."""
        return self.registers * 3 // 4


def machine(target: "tvm.target.Target") -> Machine:
    """The vector unit of a target's CPU, by LLVM's features."""
    for feature, width, registers in WIDTHS:
        if tvm.target.codegen.target_has_features(feature, target):
            is_halved = width == 64 and str(target.attrs.get("mcpu", "")) in HALVED
            return Machine(width, registers, dots(target), computes_half(target), is_halved)
    return Machine(computes_half=computes_half(target))
