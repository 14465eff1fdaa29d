"""dlight's fallback computes the epilogue of a sum of one element twice: where the sum starts, and with the element."""

import sys

import tvm
from building import fused_kernel
from tvm import relax
from tvm.s_tir import dlight

TARGET = tvm.target.Target({"kind": "opencl", "max_num_threads": 256}, host="llvm")


def still_needed() -> bool:
    kernel = fused_kernel(lambda x: relax.op.add(relax.op.mean(x, 1), relax.const(1.0)), ((2, 1, 5), "float32"))
    scheduled = str(dlight.gpu.Fallback().apply(kernel, TARGET, False).mod["main"])
    print(scheduled)
    body = scheduled[scheduled.index("T.init") :]
    return body.count("T.float32(1.0)") > 1 or ("T.init" in scheduled and body.count("+ T.float32(1.0)") > 1)


if __name__ == "__main__":
    sys.exit(still_needed())
