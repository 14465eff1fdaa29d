"""TVM's threads: their number, and their cores."""

import os

from tvmake.errors import MachineError

VARIABLE = "TVM_BIND_THREADS"


def disable_thread_binding() -> None:
    """Keep TVM from binding threads if this process may not use every core.

    The user's setting has precedence. Repair: `binding-to-first-cores`.
    """
    if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < (os.cpu_count() or 1):
        os.environ.setdefault(VARIABLE, "0")


def tvm_threads() -> int | None:
    """The number of threads for TVM's CPU kernels in the environment; None if it is not set.

    Raises:
        MachineError: it is not a number.
    """
    text = os.environ.get("TVM_NUM_THREADS")
    if text and not (text.isdecimal() and int(text)):
        raise MachineError(
            "the environment variable TVM_NUM_THREADS", f"expected a number of at least 1 (got '{text}')", "unset it"
        )
    return int(text) if text else None
