"""Find what denies a process access to a file or directory, and how to permit it."""

import errno
import os
import shlex
import stat
from pathlib import Path

from tvmake.errors import InputError
from tvmake.storage.directories import HOME_VARIABLE, cache_directory, data_directory

DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
"""The system's codes for denied access."""

_BITS = {os.R_OK: stat.S_IRUSR, os.W_OK: stat.S_IWUSR, os.X_OK: stat.S_IXUSR}


def obstacle(path: Path, access: int = os.W_OK) -> Path | None:
    """The first directory on the way to a path that denies this process access, or the path itself.

    Args:
        path: a file or directory; if it does not exist, its future directory decides.
        access: :data:`os.R_OK` or :data:`os.W_OK`.

    Returns:
        None if neither owner nor mode denies access.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100  # the system resolves links
    for parent in reversed(path.parents):
        if parent.exists() and not os.access(parent, os.X_OK):
            return parent
    while not os.path.lexists(path):
        path = path.parent
    needed = access | os.X_OK if path.is_dir() else access
    return None if os.access(path, needed) else path


def unreadable_error(
    path: Path | str, error: OSError, fallback: str = "name a plain file", where: str | None = None
) -> InputError:
    """The error for an unreadable file, with the change that would permit access.

    Args:
        fallback: the remedy if neither owner, mode nor disk is the cause.
        where: the user's name for the file, if not its path.
    """
    remedy = fallback
    if error.errno in DENIED:
        remedy = how_to_permit(Path(path), os.R_OK)
    elif error.errno in (errno.EIO, errno.ESTALE):
        remedy = "look at its disk: dmesg, df"
    return InputError(where or str(path), f"cannot be read: {(error.strerror or str(error)).lower()}", remedy)


def how_to_permit(path: Path, access: int = os.W_OK) -> str:
    """The remedy for a path that this process may not read or write, in one line.

    Args:
        path: as for :func:`obstacle`.
        access: as for :func:`obstacle`.
    """
    otherwise = _alternative(path) if access == os.W_OK else "work with a copy"
    denied = obstacle(path, access) or obstacle(Path(path).parent, access)
    if denied is None:
        return f"see its owner, mode and attributes (ls -ld, lsattr), or {otherwise}"
    status = denied.stat()
    name = os.path.relpath(denied) if denied.is_relative_to(Path.cwd()) else str(denied)
    if status.st_uid != os.geteuid():
        return f"{name} belongs to {owner_name(status.st_uid)}: change its owner (chown), or {otherwise}"
    needed = (access, os.X_OK) if denied.is_dir() else (access,)
    if all(status.st_mode & _BITS[permission] for permission in needed):
        if os.statvfs(denied).f_flag & os.ST_RDONLY:
            return f"{name} is on a file system that is read-only: {otherwise}"
        return (
            f"access is denied, but not by its mode: see its attributes (lsattr -d {shlex.quote(name)}), or {otherwise}"
        )
    permissions = "u+rwx" if denied.is_dir() else "u+rw"
    return f"its mode is {stat.filemode(status.st_mode)}: chmod {permissions} {shlex.quote(name)}"


def _alternative(path: Path) -> str:
    """How to write elsewhere than at a path."""
    is_own = any(Path(path).is_relative_to(directory("")) for directory in (cache_directory, data_directory))
    return f"set {HOME_VARIABLE} to a directory of yours" if is_own else "choose another directory"


def owner_name(number: int) -> str:
    """A user's name, by number."""
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def umask() -> int:
    """The permission bits that the system removes from the mode of new files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
