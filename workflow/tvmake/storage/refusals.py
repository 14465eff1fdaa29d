"""What the operating system refuses, as one clear line each."""

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
"""The system's codes for limits of a process, which no file has to do with."""

_HOW_TO_USE = {errno.ELOOP: "correct its links, which lead to themselves", errno.ENAMETOOLONG: "choose a shorter name"}


def no_space(where: str) -> MachineError:
    """What to say when the disk that holds ``where`` is full, or the user's quota."""
    return MachineError(where, "no space left on the disk", "free some space and run the same command again")


def too_large(where: str) -> MachineError:
    """What to say of a file that is larger than this process may write."""
    return MachineError(where, "is larger than the files this process may write", "raise the limit (ulimit -f)")


def deleted(where: str) -> MachineError:
    """What to say when a file is missing that the same run has made or read before."""
    problem = "is missing, though it was there before: something deletes or moves files while this runs"
    return MachineError(where, problem, "run again when nothing else changes these directories")


def is_full(directory: Path) -> bool:
    """Whether the disk that holds a directory, or the user's quota, has no room for a small file."""
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(SMALL_FILE))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno in NO_SPACE
    return False


def system_error(number: int, place: str) -> MachineError | None:
    """What to say when the system refuses a file where nothing closer is known of what was to be done with it.

    Args:
        number: its code.
        place: the file or directory.

    Returns:
        None for a code that tells nothing of the machine, as of a file that is not there.
    """
    reason = os.strerror(number)
    if number in NO_SPACE:
        return no_space(place)
    if number == errno.EFBIG:
        return too_large(place)
    if number == errno.ENOMEM:
        return MachineError(place, "not enough memory", "close other programs, or raise the limit: ulimit -v")
    if number in (errno.EMFILE, errno.ENFILE):
        return MachineError(place, "the system opens no more files", "raise the limit: ulimit -n 1024")
    if number == errno.EAGAIN:
        return MachineError(place, "the system starts no more processes", "end some, or raise the limit: ulimit -u")
    if number in DENIED:
        wanted = os.R_OK if obstacle(Path(place), os.R_OK) else os.W_OK
        problem = f"cannot be {'read' if wanted == os.R_OK else 'written'} ({reason})"
        return MachineError(place, problem, how_to_permit(Path(place), wanted))
    if number in (errno.ELOOP, errno.EIO, errno.ESTALE, errno.ENAMETOOLONG):
        return MachineError(place, f"cannot be used ({reason})", _HOW_TO_USE.get(number, "look at its disk: dmesg, df"))
    return None


def temporary_file_refused(error: OSError, directory: Path) -> MachineError | None:
    """What to say of an error in a directory for temporary files; None where it is about something else.

    Where what was written is refused, and not the file as such, the system's error names none.
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
    """Refuse a directory of temporary files that no library is loaded from.

    Raises:
        MachineError: its disk is mounted noexec.
    """
    if os.statvfs(directory).f_flag & os.ST_NOEXEC:
        problem = "no kernel can be loaded from there: its disk is mounted noexec"
        raise MachineError(tempfile.gettempdir(), problem, "name another directory for temporary files: TMPDIR")


def full_for_temporary_files() -> MachineError:
    """What to say when the directory of temporary files is full."""
    remedy = "make room there, or name another directory for temporary files: TMPDIR"
    return MachineError(tempfile.gettempdir(), "no space left on the disk", remedy)
