"""Check a target before anything is built for it."""

from tvmake.targets.options import TargetOptions
from tvmake.targets.toolchain import compiler_driver


def check_target(target: TargetOptions, where: str) -> None:
    """Check that LLVM knows a target's CPU, and that a compiler links for it. TVM is loaded only if the check may fail.

    Raises:
        InputError: TVM or LLVM do not know the target.
        MachineError: no compiler links for it.
    """
    parts = [part for part in (target, target.host) if part]
    if target.tag or any(
        part.attributes or part.arch or part.mattr or part.mcpu not in (None, "native") for part in parts
    ):
        from tvmake.targets.resolve import linker, tvm_target

        tvm_target(target, where)
        linker(target, where, is_tried=False)
    else:
        compiler_driver(target, where, is_tried=False)
