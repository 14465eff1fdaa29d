"""Copy a module for the texture passes.

The copy through JSON shares nothing with the caller's module. Repair: `adreno-shared-constants`.
"""

import tvm

from tvmake.artifact.empty_tensors import spell_out_empty
from tvmake.targets.affected import is_affected


def copy_module(module: "tvm.IRModule") -> "tvm.IRModule":
    """A copy that shares no node with ``module``."""
    return tvm.ir.load_json(tvm.ir.save_json(spell_out_empty(module))) if is_affected() else module
