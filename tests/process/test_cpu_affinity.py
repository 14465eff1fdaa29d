"""Kernels run on the cores that a process was given."""

import json
import os
import subprocess
import sys

import pytest

from tests.children import WITHOUT_TORCH
from tests.patience import HANG_S
from tvmake.process.cpu_affinity import VARIABLE

KERNEL = """
import json, os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
if sys.argv[2] == "stay":
    from tvmake.process.cpu_affinity import disable_thread_binding
    disable_thread_binding()
import numpy as np
import tvm
from tvm import te
x = te.placeholder((64, 64), "float32", name="x")
schedule = tvm.s_tir.Schedule(te.create_prim_func([x, te.compute(x.shape, lambda i, j: x[i, j] + 1, name="y")]))
schedule.parallel(schedule.get_loops("y")[0])
tensors = [tvm.runtime.tensor(np.zeros((64, 64), "float32")) for _ in range(2)]
tvm.tirx.build(schedule.mod, "llvm")["main"](*tensors)
assert tensors[1].numpy().min() == 1
print(json.dumps(sorted(set().union(*(os.sched_getaffinity(int(task)) for task in os.listdir("/proc/self/task"))))))
"""


def cores_of_a_kernel(core: int, how: str, **variables: str) -> list[int]:
    """The cores that two threads of a kernel may use in a process that was given one."""
    kept = {name: value for name, value in os.environ.items() if name != VARIABLE}
    env = {**kept, "TVM_NUM_THREADS": "2", **variables}
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_TORCH + KERNEL, str(core), how]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    cores: list[int] = json.loads(done.stdout)
    return cores


@pytest.fixture
def core() -> int:
    """The last core of this machine."""
    cores = os.sched_getaffinity(0)
    if len(cores) < max(
        2, os.cpu_count() or 1
    ):  # where a container is given some, the system lets no thread leave them
        pytest.skip("needs all cores of a machine, and two of them")
    return max(cores)


def test_threads_stay_on_the_core_that_was_given(core: int):
    assert cores_of_a_kernel(core, "stay") == [core]


def test_what_the_user_sets_stays(core: int):
    assert cores_of_a_kernel(core, "stay", **{VARIABLE: "1"}) != [core]


def test_commands_of_a_process_with_all_cores_leave_binding_to_tvm():
    program = "from tvmake.cli import run; run(['--version']); import os; print(os.environ.get('TVM_BIND_THREADS'))"
    kept = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", program], env=kept, capture_output=True, text=True, check=True, timeout=HANG_S
    )
    is_whole = len(os.sched_getaffinity(0)) == os.cpu_count()
    assert done.stdout.splitlines()[-1] == ("None" if is_whole else "0")
