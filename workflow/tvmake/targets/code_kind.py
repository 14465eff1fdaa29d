"""What generates a target's code, without loading TVM if the target itself tells."""

from tvmake.targets.options import TargetOptions

BY_TVM = frozenset({"llvm", "opencl"})
"""Kinds whose code TVM generates by itself. For the others further compilers are used (nvcc, xcrun, a C compiler with the system's
headers), or TVM asks this machine's devices."""

RARE = frozenset({"metal", "rocm", "vulkan", "hexagon", "webgpu"})
"""Kinds that TVM's wheels may have no code generator for."""


def foreign_kind(target: TargetOptions, where: str) -> str | None:
    """The kind of a target whose code depends on more than TVM; None for others.

    Args:
        where: the target's key.

    Raises:
        InputError: TVM refuses the target.
    """
    if target.entry is not None:
        kind = target.entry.kind
    elif target.tag is None:
        kind = target.kind or "llvm"
    else:
        from tvmake.targets.resolve import tvm_target  # takes a second, and only a tag of TVM's needs it

        kind = str(tvm_target(target, where).kind.name)
    return None if kind in BY_TVM else kind


def rare_kind(target: TargetOptions) -> str | None:
    """The kind of a target that this TVM may generate no code for; None for others."""
    return target.kind if target.kind in RARE else None
