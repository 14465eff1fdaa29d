"""Find kernels whose records or rules the code generator cannot handle.

A schedule that replays may still fail: OpenCL's generator refuses some vectors, for example. If candidates are measured
on a device, such a record never wins. If code is only generated, the build is the first step to fail.
"""

import tvm

from tvmake.codegen.compiler_errors import explain
from tvmake.codegen.lowering import Lowered
from tvmake.codegen.run_kernel import ENTRY
from tvmake.process.isolation import Refused, map_isolated
from tvmake.targets.backends import kernel_pipeline
from tvmake.targets.kernels.scheduled_kernel import is_scheduled

LIMIT_S = 600
"""Limit for one kernel; large ones take some seconds."""


def unbuildable_kernels(lowered: Lowered, target: "tvm.target.Target") -> dict[str, str]:
    """After a failed build: the kernels with a schedule that cannot be built even separately, with the reason."""

    def build(name: str) -> bytes:
        kernel = lowered.fused[name].with_attr("global_symbol", ENTRY)
        try:
            tvm.tirx.build(tvm.IRModule({ENTRY: kernel}), target=target, pipeline=kernel_pipeline(target))
        except (tvm.error.InternalError, RuntimeError, ValueError, TypeError, AttributeError) as error:
            raise Refused(explain(error)) from error
        return b""

    # GPU kernels that TVM's rules schedule later must have a schedule.
    names = sorted({*lowered.tuned, *(name for name in lowered.ruled if is_scheduled(lowered.fused[name]))})
    results = map_isolated(names, build, "it ends the code generator", LIMIT_S)
    return {
        name: f"there is no code for its {_origin(name, lowered)}: {result}"
        for name, result in zip(names, results, strict=True)
        if isinstance(result, Refused)
    }


def _origin(name: str, lowered: Lowered) -> str:
    return f"record {lowered.tuned[name][:12]}" if name in lowered.tuned else "schedule by rules"
