"""Errors of the operating system as messages."""

import errno
import os
import tempfile
from pathlib import Path

from tvmake.errors import MachineError
from tvmake.storage.permissions import DENIED, how_to_permit, obstacle

SMALL_FILE = 16 * 1024
"""Bytes."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""The system's codes for a full disk and an exhausted quota."""

OF_PROCESSES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""The system's codes for limits of a process rather than of a file."""

_HOW_TO_USE = {errno.ELOOP: "correct its links, which lead to themselves", errno.ENAMETOOLONG: "choose a shorter name"}


def no_space(where: str) -> MachineError:
    """The error for a full disk, or an exhausted quota, at ``where``."""
    return MachineError(where, "no space left on the disk", "free some space and run the same command again")


def too_large(where: str) -> MachineError:
    """The error for a file that exceeds this process's limit on file sizes."""
    return MachineError(where, "exceeds this process's limit on file sizes", "raise the limit (ulimit -f)")


def deleted(where: str) -> MachineError:
    """The error for a missing file that the same run has written or read before."""
    problem = "was deleted during this run: another program deletes or moves files"
    return MachineError(where, problem, "run again when nothing else changes these directories")


def is_full(directory: Path) -> bool:
    """Whether a directory's disk, or the user's quota, has no space for a small file."""
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(SMALL_FILE))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno in NO_SPACE
    return False


def system_error(number: int, path: str) -> MachineError | None:
    """The error for a failed system call on a file, without knowledge of the operation.

    Args:
        number: the error code.
        path: the file or directory.

    Returns:
        None for a code that is not about the machine, such as a missing file.
    """
    reason = os.strerror(number)
    if number in NO_SPACE:
        return no_space(path)
    if number == errno.EFBIG:
        return too_large(path)
    if number == errno.ENOMEM:
        return MachineError(path, "not enough memory", "close other programs, or raise the limit: ulimit -v")
    if number in (errno.EMFILE, errno.ENFILE):
        return MachineError(path, "too many open files", "raise the limit: ulimit -n 1024")
    if number == errno.EAGAIN:
        return MachineError(path, "too many processes", "end some, or raise the limit: ulimit -u")
    if number in DENIED:
        access = os.R_OK if obstacle(Path(path), os.R_OK) else os.W_OK
        problem = f"cannot be {'read' if access == os.R_OK else 'written'} ({reason})"
        return MachineError(path, problem, how_to_permit(Path(path), access))
    if number in (errno.ELOOP, errno.EIO, errno.ESTALE, errno.ENAMETOOLONG):
        return MachineError(path, f"cannot be used ({reason})", _HOW_TO_USE.get(number, "look at its disk: dmesg, df"))
    return None


def temporary_file_refused(error: OSError, directory: Path) -> MachineError | None:
    """The error for a failure in a directory for temporary files; None if the failure is about another file.

    An error of a write, rather than of a file as such, has no file name.
    """
    if error.errno not in (*NO_SPACE, errno.EFBIG):
        return None
    if not (
        Path(str(error.filename)).is_relative_to(directory)
        if error.filename
        else error.errno == errno.EFBIG or is_full(directory)
    ):
        return None
    return full_for_temporary_files() if error.errno in NO_SPACE else too_large(f"a temporary file in {directory}")


def check_loadable(directory: Path) -> None:
    """Refuse a directory of temporary files from which libraries cannot be loaded.

    Raises:
        MachineError: its disk is mounted noexec.
    """
    if os.statvfs(directory).f_flag & os.ST_NOEXEC:
        problem = "no kernel can be loaded from there: its disk is mounted noexec"
        raise MachineError(tempfile.gettempdir(), problem, "name another directory for temporary files: TMPDIR")


def full_for_temporary_files() -> MachineError:
    """The error for a full directory of temporary files."""
    remedy = "free some space there, or name another directory for temporary files: TMPDIR"
    return MachineError(tempfile.gettempdir(), "no space left on the disk", remedy)
