"""Passes of tvmake beside those of TVM: run one after the other, switched off, dumped and timed by name alike."""

from collections.abc import Callable, Iterable
from typing import Any

import tvm

Rewrite = Callable[["tvm.IRModule"], "tvm.IRModule"]


class ModulePass:
    """A function that rewrites a module, as a pass with a name.

    What it raises reaches the caller unchanged, where TVM would make a RuntimeError of it.
    """

    def __init__(self, name: str, rewrite: Rewrite):
        self.name = name
        self._rewrite = rewrite

    def __call__(self, module: "tvm.IRModule") -> "tvm.IRModule":
        errors: list[Exception] = []

        def run(module: "tvm.IRModule", _context: Any) -> "tvm.IRModule":
            try:
                return self._rewrite(module)
            except Exception as error:
                errors.append(error)
                raise

        try:
            return _run_one(tvm.transform.module_pass(run, opt_level=0, name=self.name), module)
        except Exception:
            if errors:
                raise errors[0] from errors[0].__cause__
            raise


Pass = Any
"""A pass of TVM, or a :class:`ModulePass`."""


def run_passes(passes: Iterable[Pass], module: "tvm.IRModule") -> "tvm.IRModule":
    """Run passes in order, but for those that the pass context disables."""
    for module_pass in passes:
        module = module_pass(module) if isinstance(module_pass, ModulePass) else _run_one(module_pass, module)
    return module


def pass_name(module_pass: Pass) -> str:
    """The name by which a pass is disabled and dumped."""
    return module_pass.name if isinstance(module_pass, ModulePass) else str(module_pass.info.name)


def _run_one(module_pass: Pass, module: "tvm.IRModule") -> "tvm.IRModule":
    """Run a pass in a sequence: called by itself, it would run although it is disabled."""
    return tvm.transform.Sequential([module_pass])(module)
