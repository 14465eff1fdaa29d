"""Options for this machine, for tests of a module's results rather than its code."""

import tvm

UNOPTIMISED = tvm.target.Target({"kind": "llvm", "opt-level": 0})
"""A target without LLVM's optimisations, which take more than half of the time to compile a small network."""
