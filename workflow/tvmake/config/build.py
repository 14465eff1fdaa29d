"""``build:`` — lowering, code generation and what to keep of it."""

from typing import Literal

from pydantic import Field

from tvmake.config.base import Strict

Dump = Literal["relax", "tir", "ll", "asm", "kernels"]


class BuildOptions(Strict):
    """How a module becomes mod.so."""

    opt_level: int = Field(default=3, ge=0, le=4)
    """TVM's pass level: passes above it are left out."""
    exec_mode: Literal["bytecode", "compiled"] = "bytecode"
    """Whether the VM interprets the graph or runs it compiled."""
    cuda_graph: bool = False
    """For CUDA targets: record the kernels of the first run as a CUDA graph, and launch that in the following ones. A
    program that loads the package must give it the same parameters each time."""
    schedule_rules: bool = True
    """For CPUs: schedule the kernels that have no tuning record by rules for the target's vectors and caches. Without them, such
    kernels are plain loops on one core. GPUs always have rules."""
    dump: list[Dump] = Field(default_factory=list)
    """Generated sources to keep in ``sources/``: ``relax`` and ``tir`` (text), ``ll`` (LLVM IR), ``asm``, ``kernels`` (device source, one file a kernel)."""
