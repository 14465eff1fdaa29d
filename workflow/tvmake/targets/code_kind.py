"""Determine what generates a target's code, without loading TVM if possible."""

from tvmake.targets.options import TargetOptions

BY_TVM = frozenset({"llvm", "opencl"})
"""Kinds whose code TVM generates without other tools. The others need further compilers (nvcc, xcrun, a C compiler with
the system's headers), or TVM queries this machine's devices."""

RARE = frozenset({"metal", "rocm", "vulkan", "hexagon", "webgpu"})
"""Kinds for which TVM's wheels may lack a code generator."""


def foreign_kind(target: TargetOptions, where: str) -> str | None:
    """The kind of a target whose code depends on more than TVM; None for others.

    Raises:
        InputError: TVM refuses the target.
    """
    if target.entry is not None:
        kind = target.entry.kind
    elif target.tag is None:
        kind = target.kind or "llvm"
    else:
        from tvmake.targets.resolve import tvm_target  # takes a second; only TVM's tags need it

        kind = str(tvm_target(target, where).kind.name)
    return None if kind in BY_TVM else kind


def rare_kind(target: TargetOptions) -> str | None:
    """The kind of a target for which this TVM may lack a code generator; None for others."""
    return target.kind if target.kind in RARE else None
