"""TVM's threads stay on the cores that a process may use."""

import os

VARIABLE = "TVM_BIND_THREADS"


def stay_on_own_cores() -> None:
    """Keep TVM from binding threads where this process, and all that it starts, may not use every core.

    TVM 0.27 counts the cores that a process may use (``taskset``, ``numactl``, a cluster's job) and binds its threads to as many of the
    machine, from the first one on (src/runtime/threading_backend.cc): processes that were given cores of their own share the
    first ones, and take twice the time. What the user sets stays.
    """
    if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < (os.cpu_count() or 1):
        os.environ.setdefault(VARIABLE, "0")
