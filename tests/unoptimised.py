"""For this machine, where tests ask what a module computes and not what code comes out."""

import tvm

UNOPTIMISED = tvm.target.Target({"kind": "llvm", "opt-level": 0})
"""Without LLVM's optimisations, which take more than half of the time of compiling a small network."""
