"""Find the records that a code generator has no code for.

A schedule that replays may still be none: OpenCL's generator refuses some vectors, for example. Where candidates are
measured on a device, such a record never becomes a winner; where code is only generated, the build is the first to know.
"""

from tvmake.quick_tvm import tvm
from tvmake.target.codegen import tir_pipeline
from tvmake.target.pipeline import Lowered
from tvmake.tune.isolation import Refused, each_isolated
from tvmake.tune.measuring.failure import explain
from tvmake.tune.run_kernel import ENTRY

LIMIT_S = 600
"""For one kernel; large ones take some seconds."""


def without_code(lowered: Lowered, target: "tvm.target.Target") -> dict[str, str]:
    """The tuned kernels that cannot be built even alone, with the reason; for after a build has failed."""

    def build(name: str) -> bytes:
        kernel = lowered.fused[name].with_attr("global_symbol", ENTRY)
        try:
            tvm.tirx.build(tvm.IRModule({ENTRY: kernel}), target=target, pipeline=tir_pipeline(target))
        except (tvm.error.InternalError, RuntimeError, ValueError, TypeError, AttributeError) as error:
            raise Refused(explain(error)) from error
        return b""

    names = sorted(lowered.tuned)
    answers = each_isolated(names, build, "it ends the code generator", LIMIT_S)
    return {
        name: f"there is no code for its record {lowered.tuned[name][:12]}: {answer}"
        for name, answer in zip(names, answers, strict=True)
        if isinstance(answer, Refused)
    }
