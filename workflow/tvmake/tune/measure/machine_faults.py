"""Failures that a candidate is not to blame for: it is not recorded as one that does not work."""

import errno
import os
import tempfile
from pathlib import Path

from tvmake.storage.refusals import NO_SPACE, full_for_temporary_files, is_full, system_error

REFUSALS = (*NO_SPACE, errno.EAGAIN, errno.EMFILE, errno.ENFILE)
"""The system's codes for what it has no more of, whatever is built or run. Memory is not among them: a candidate may want too much."""


def check_machine(line: str, crashed: bool = False) -> None:
    """See whether a builder or a kernel failed for the machine.

    Args:
        line: what it said of its failure.
        crashed: whether its process ended: LLVM's code generator does so, and says nothing, where it cannot write.

    Raises:
        MachineError: it did, which all that follow would do, too.
    """
    for number in REFUSALS:
        if os.strerror(number) in line and (refused := system_error(number, "tuning")):
            raise full_for_temporary_files() if number in NO_SPACE else refused
    if crashed and is_full(Path(tempfile.gettempdir())):
        raise full_for_temporary_files()
