"""TVM's threads: how many, and that they stay on the cores that a process may use."""

import os

from tvmake.errors import MachineError

VARIABLE = "TVM_BIND_THREADS"


def stay_on_own_cores() -> None:
    """Keep TVM from binding threads where this process, and all that it starts, may not use every core.

    A value that the user has set is kept. Repair: `binding-to-first-cores`.
    """
    if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < (os.cpu_count() or 1):
        os.environ.setdefault(VARIABLE, "0")


def tvm_threads() -> int | None:
    """How many threads the environment gives TVM's CPU kernels; None where it leaves that to TVM.

    Raises:
        MachineError: it gives something else than a number.
    """
    text = os.environ.get("TVM_NUM_THREADS")
    if text and not (text.isdecimal() and int(text)):
        raise MachineError(
            "the environment variable TVM_NUM_THREADS", f"expected a number from 1 on (got '{text}')", "unset it"
        )
    return int(text) if text else None
