"""Worker threads are bound to the first cores of the machine, whichever the process may use."""

import os
import sys
from pathlib import Path

import numpy as np
import tvm
from tvm import te

TASKS = Path("/proc/self/task")


def still_needed() -> bool:
    cores = os.sched_getaffinity(0)
    os.environ["TVM_NUM_THREADS"] = "2"
    own = max(cores)
    os.sched_setaffinity(0, {own})
    x = te.placeholder((64, 64), name="x")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, te.compute(x.shape, lambda i, j: x[i, j] + 1, name="y")]))
    schedule.parallel(schedule.get_loops(schedule.get_sblock("y"))[0])
    tensors = [tvm.runtime.tensor(np.zeros((64, 64), "float32")) for _ in range(2)]
    tvm.tirx.build(schedule.mod, "llvm")["main"](*tensors)
    used = set().union(*(os.sched_getaffinity(int(task.name)) for task in TASKS.iterdir()))
    print(f"the process was given core {own}, and its threads run on {sorted(used)}")
    return used != {own}


if __name__ == "__main__":
    sys.exit(still_needed())
