"""Run passes of tvmake and TVM alike: in sequence, with names to disable, dump and time them."""

from collections.abc import Callable, Iterable
from typing import Any

import tvm

Rewrite = Callable[["tvm.IRModule"], "tvm.IRModule"]


class ModulePass:
    """A function that rewrites a module, as a named pass.

    Its exceptions reach the caller unchanged; TVM alone would convert them to RuntimeError.
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
    """Run passes in order, except those that the pass context disables."""
    for module_pass in passes:
        module = module_pass(module) if isinstance(module_pass, ModulePass) else _run_one(module_pass, module)
    return module


def pass_name(module_pass: Pass) -> str:
    """The name for disabling and dumping a pass."""
    return module_pass.name if isinstance(module_pass, ModulePass) else str(module_pass.info.name)


def _run_one(module_pass: Pass, module: "tvm.IRModule") -> "tvm.IRModule":
    """Run a pass in a sequence; a direct call would ignore that it is disabled."""
    return tvm.transform.Sequential([module_pass])(module)
