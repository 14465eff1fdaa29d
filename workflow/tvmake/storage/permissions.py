"""What keeps a process from a file or directory, and what would let it in."""

import errno
import os
import shlex
import stat
from pathlib import Path

from tvmake.errors import InputError, MachineError
from tvmake.storage.directories import HOME_VARIABLE, cache_directory, data_directory

DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
"""The system's codes for what it does not permit."""

_BITS = {os.R_OK: stat.S_IRUSR, os.W_OK: stat.S_IWUSR, os.X_OK: stat.S_IXUSR}


def obstacle(place: Path, wanted: int = os.W_OK) -> Path | None:
    """The first directory on the way to a place that keeps this process from it, or the place itself.

    Args:
        place: a file or directory; for one that is not there, the directory where it would be made decides.
        wanted: :data:`os.R_OK` or :data:`os.W_OK`.

    Returns:
        None where neither owner nor mode is in the way.
    """
    place = Path(os.path.abspath(place))  # noqa: PTH100  # links are followed as the system does
    for above in reversed(place.parents):
        if above.exists() and not os.access(above, os.X_OK):
            return above
    while not os.path.lexists(place):
        place = place.parent
    needed = wanted | os.X_OK if place.is_dir() else wanted
    return None if os.access(place, needed) else place


def unreadable(
    path: Path | str, error: OSError, otherwise: str = "name a plain file", where: str | None = None
) -> InputError:
    """What to say of a file that the system does not let this process read, with what would let it.

    Args:
        otherwise: what to do where neither owner, mode nor disk is in the way.
        where: what the user wrote for the file, if not its path.
    """
    remedy = otherwise
    if error.errno in DENIED:
        remedy = how_to_permit(Path(path), os.R_OK)
    elif error.errno in (errno.EIO, errno.ESTALE):
        remedy = "look at its disk: dmesg, df"
    return InputError(where or str(path), f"cannot be read: {(error.strerror or str(error)).lower()}", remedy)


def how_to_permit(place: Path, wanted: int = os.W_OK) -> str:
    """What to do about a place that this process may not read or write: one line, for what is in the way.

    Args:
        place: as for :func:`obstacle`.
        wanted: as for :func:`obstacle`.
    """
    otherwise = _another_place(place) if wanted == os.W_OK else "work with a copy"
    found = obstacle(place, wanted) or obstacle(Path(place).parent, wanted)
    if found is None:
        return f"see its owner, mode and attributes (ls -ld, lsattr), or {otherwise}"
    about = found.stat()
    name = os.path.relpath(found) if found.is_relative_to(Path.cwd()) else str(found)
    if about.st_uid != os.geteuid():
        return f"{name} belongs to {owner_name(about.st_uid)}: have it given to you (chown), or {otherwise}"
    needed = (wanted, os.X_OK) if found.is_dir() else (wanted,)
    if all(about.st_mode & _BITS[right] for right in needed):
        if os.statvfs(found).f_flag & os.ST_RDONLY:
            return f"{name} is on a file system that is read-only: {otherwise}"
        return f"something else than its mode forbids it: see its attributes (lsattr -d {shlex.quote(name)}), or {otherwise}"
    rights = "u+rwx" if found.is_dir() else "u+rw"
    return f"its mode is {stat.filemode(about.st_mode)}: chmod {rights} {shlex.quote(name)}"


def _another_place(place: Path) -> str:
    """How to have something written elsewhere than at a place."""
    is_own = any(Path(place).is_relative_to(directory("")) for directory in (cache_directory, data_directory))
    return f"set {HOME_VARIABLE} to a directory of yours" if is_own else "choose another directory"


def owner_name(number: int) -> str:
    """A user's name, by number."""
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def check_umask() -> None:
    """Refuse a umask that keeps a process from the files and directories that it makes.

    Raises:
        MachineError: it takes rights of the owner.
    """
    if umask() & stat.S_IRWXU:
        raise MachineError(f"umask {umask():04o}", "keeps you from the files that you make", "type `umask 022` first")


def umask() -> int:
    """What the system takes from the mode of a file that this process makes."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
