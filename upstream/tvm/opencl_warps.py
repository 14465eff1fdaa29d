"""Reductions on OpenCL put barriers into a branch that only the first warp enters."""

import re
import sys

import tvm
from building import device_source
from tvm import te


def barriers_in_branches(source: str) -> int:
    """How many barriers are inside of an ``if``."""
    found, depth, branches = 0, 0, []
    for line in source.splitlines():
        if re.match(r"\s*if \(.*\{$", line):
            branches.append(depth)
        found += bool(branches and "barrier(" in line)
        depth += line.count("{") - line.count("}")
        while branches and depth <= branches[-1]:
            branches.pop()
    return found


def still_needed() -> bool:
    x = te.placeholder((4, 1024), name="x")
    k = te.reduce_axis((0, 1024), name="k")
    kernel = te.create_prim_func([x, te.compute((4,), lambda row: te.sum(x[row, k], k), name="result")])
    schedule = tvm.s_tir.Schedule(kernel)
    rows, columns = schedule.get_loops(schedule.get_sblock("result"))
    _, threads = schedule.split(columns, [None, 256])
    schedule.bind(rows, "blockIdx.x")
    schedule.bind(threads, "threadIdx.x")
    target = tvm.target.Target({"kind": "opencl", "thread_warp_size": 64}, host="llvm")
    found = barriers_in_branches(device_source(schedule.mod, target))
    print(f"{found} barriers are in branches")
    return found > 0


if __name__ == "__main__":
    sys.exit(still_needed())
