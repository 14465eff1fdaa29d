"""Failures of the machine, which are not recorded as failures of a candidate."""

import errno
import os
import tempfile
from pathlib import Path

from tvmake.storage.refusals import NO_SPACE, full_for_temporary_files, is_full, system_error

REFUSALS = (*NO_SPACE, errno.EAGAIN, errno.EMFILE, errno.ENFILE)
"""Error codes for exhausted resources. Memory is not among them: a candidate may need too much."""


def check_machine(line: str, crashed: bool = False) -> None:
    """Check whether the machine caused a failure of a builder or a kernel.

    Args:
        crashed: whether the process ended: LLVM's code generator exits silently if it cannot write.

    Raises:
        MachineError: the machine caused it, and would fail all further candidates.
    """
    for number in REFUSALS:
        if os.strerror(number) in line and (refused := system_error(number, "tuning")):
            raise full_for_temporary_files() if number in NO_SPACE else refused
    if crashed and is_full(Path(tempfile.gettempdir())):
        raise full_for_temporary_files()
