"""dlight's GEMV binds one kind of thread with different extents in one kernel."""

import sys

import tvm
import tvm_ffi
from building import fused_kernel
from tvm import relax
from tvm.s_tir import dlight

op = relax.op
TARGET = tvm.target.Target("qcom/adreno-opencl")


def gated(x, w, large):
    """A squeeze-and-excite gate: the result of a matmul with a vector is spread over an image."""
    return op.multiply(large, op.sigmoid(op.nn.conv2d(x, w)))


def still_needed() -> bool:
    kernel = fused_kernel(gated, ((1, 8, 1, 1), "float32"), ((16, 8, 1, 1), "float32"), ((1, 16, 40, 40), "float32"))
    schedule = dlight.gpu.GEMV().apply(kernel, TARGET, False)
    if schedule is None:
        print("GEMV leaves the kernel to another rule")
        return False
    extents: set[int] = set()

    def visit(loop):
        if loop.thread_binding is not None and loop.thread_binding.thread_tag == "threadIdx.x":
            extents.add(int(loop.extent))

    tvm_ffi.structural_walk(schedule.mod["main"].body, (tvm.tirx.For, visit))
    print(f"the extents of threadIdx.x: {sorted(extents)}")
    return len(extents) > 1


if __name__ == "__main__":
    sys.exit(still_needed())
