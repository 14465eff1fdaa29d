"""Compile for this machine in little time, for tests of a module's results rather than its code."""

from typing import Any

import tvm

from tvmake.codegen.options import BuildOptions

UNOPTIMISED = tvm.target.Target({"kind": "llvm", "opt-level": 0})
"""A target without LLVM's optimisations, which take more than half of the time to compile a small network."""

WITHOUT_CHECKS = {"tirx.disable_assert": True}
"""TVM's setting for kernels that do not check their arguments: two thirds of the machine code of a small network."""

UNCHECKED = BuildOptions(pass_config=WITHOUT_CHECKS)
"""The same, as options of a build."""


def compile_unoptimised(module: "tvm.IRModule | tvm.tirx.PrimFunc", **options: Any) -> Any:
    """Compile a module without optimisations, and without kernels' checks of their arguments."""
    with tvm.transform.PassContext(config=WITHOUT_CHECKS):
        return tvm.compile(module, target=UNOPTIMISED, **options)


def unoptimised_machine(module: "tvm.IRModule") -> "tvm.relax.VirtualMachine":
    """A virtual machine that runs the compiled module."""
    return tvm.relax.VirtualMachine(compile_unoptimised(module), tvm.cpu())
