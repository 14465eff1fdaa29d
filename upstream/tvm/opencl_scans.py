"""Cumulative sums on OpenCL use a kernel that hands values from thread to thread without a barrier."""

import sys

import tvm
from building import network
from tvm import relax


def still_needed() -> bool:
    module = network(lambda x: relax.op.cumsum(x, axis=2), ((3, 40, 7), "float32"))
    with tvm.target.Target({"kind": "opencl"}, host="llvm"):
        dispatched = relax.backend.DispatchSortScan()(module)
    names = [str(variable.name_hint) for variable in dispatched.get_global_vars()]
    print(f"the kernels: {names}")
    return "gpu_2d_continuous_cumsum" in names


if __name__ == "__main__":
    sys.exit(still_needed())
