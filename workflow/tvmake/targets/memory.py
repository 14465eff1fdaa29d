"""The memory into which a target's tensors must fit."""

import os
from dataclasses import dataclass

from tvmake.targets.options import TargetOptions

NARROW_TRIPLES = ("arm-", "armv", "i386", "i486", "i586", "i686", "riscv32", "thumb", "wasm32")
"""Beginnings of LLVM's triples of processors with 32-bit addresses."""

NARROW_BYTES, WIDE_BYTES = 1 << 31, 1 << 47
"""What a process can use of 32-bit and of 64-bit addresses."""


@dataclass(frozen=True)
class Memory:
    """A limit for each tensor."""

    byte_count: int
    limit: str
    """What sets the limit (``this machine has 15.6 GiB of memory``)."""
    remedy: str = ""
    """What raises the limit; empty if nothing does."""


def addressable_memory(options: TargetOptions) -> Memory:
    """The bytes that a process of the target's CPU can address."""
    named = options.host.triple if options.host else options.triple
    is_narrow = (named or "").startswith(NARROW_TRIPLES)
    byte_count = NARROW_BYTES if is_narrow else WIDE_BYTES
    return Memory(byte_count, f"a process of the target addresses {gibibytes(byte_count)}")


def machine_memory() -> Memory:
    """The memory of the machine that compiles."""
    byte_count = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = f"this machine, for which it is compiled, has {gibibytes(byte_count)}"
    return Memory(byte_count, limit, "compile for the processor of a larger machine by its name instead of `native`")


def gibibytes(byte_count: int) -> str:
    """A number of bytes as text."""
    return f"{byte_count / (1 << 30):,.1f} GiB"
