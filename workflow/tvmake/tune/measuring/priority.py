"""Letting whatever is being timed go first.

Builds of the next candidates go on while one is timed. At equal priority that more than doubles what is measured on
two cores; stepping back leaves it unchanged (benchmarks/measuring.py) and uses every core that timing leaves free.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

AUTOGROUP = Path("/proc/self/autogroup")
"""On most desktops and many servers Linux shares processor time between sessions first (sched(7)), and only within
one between its processes."""

LAST = "19"
"""The nicest value there is: a share of 15 where others have 1024."""


def step_back_as_session() -> None:
    """Give this process's session little time while others want it. For the leader of a session of its own."""
    if sys.platform == "linux" and os.getsid(0) == os.getpid():
        # Not there without the scheduler's feature; refused when many ask within a tenth of a second.
        with suppress(OSError):
            AUTOGROUP.write_text(LAST)


def step_back() -> None:
    """Give this process time only while others of its session want none."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(int(LAST))
