"""Digests of packages that were read before: large packages are not read again while nothing changes them.

As in :mod:`tvmake.storage.notes.known_digests`, what has the same inodes, sizes and times counts as unchanged. The times include the
inode's change time, which no program can set. The digests are in the store, which only its owner can write to.
"""

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tvmake.errors import MachineError
from tvmake.storage.notes.known_digests import SETTLED_NS
from tvmake.storage.notes.state_file import read_state, write_state

NOTES = ".digests.json"
FORM = 1
"""Version of the file's format; files of other versions are ignored."""

SMALL_BYTES = 32 << 20
"""Packages of at most this size are read each time, which takes less than 0.1 s."""

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def known_digest(path: Path, root: Path, compute: Callable[[Path], str]) -> str:
    """The digest of a package, or of its unpacked directory.

    Args:
        path: the file or directory.
        root: the store, which keeps the digests.
        compute: reads the file or directory, and returns its digest.

    Raises:
        OSError: it cannot be read.
    """
    if sum(about.st_size for _, about in _files(path)) <= SMALL_BYTES:
        return compute(path)
    if (noted := noted_digest(path, root)) is not None:
        return noted
    name, (stamp, changed_ns) = os.fspath(path.absolute()), _stamp(path)
    digest = compute(path)
    if _stamp(path)[0] == stamp and time.time_ns() - changed_ns > SETTLED_NS:
        _write(root / NOTES, {**_read(root / NOTES), name: (stamp, digest)})
    return digest


def noted_digest(path: Path, root: Path) -> str | None:
    """The digest of a package or directory that is unchanged since it was read; None for others.

    Raises:
        OSError: there is none.
    """
    stamp, digest = _read(root / NOTES).get(os.fspath(path.absolute()), ("", None))
    return digest if stamp == _stamp(path)[0] else None


def _stamp(path: Path) -> tuple[str, int]:
    """Names, inodes, sizes and times, and the newest change time."""
    stamps = _files(path)
    text = "\n".join(
        f"{name} {about.st_mode} {about.st_ino} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}"
        for name, about in stamps
    )
    return text, max(about.st_ctime_ns for _, about in stamps)


def _files(path: Path) -> list[tuple[str, os.stat_result]]:
    """A file, or a directory and what is in it."""
    inside = package_entries(path) if path.is_dir() else []
    return [
        (path.name, path.stat()),
        *((entry.relative_to(path).as_posix(), entry.lstat()) for entry in inside),
    ]


def package_entries(directory: Path) -> list[Path]:
    """The files and directories of an unpacked package, and the files in these directories: those of its functions."""
    entries = sorted(directory.iterdir())
    inside = [sorted(entry.iterdir()) for entry in entries if entry.is_dir() and not entry.is_symlink()]
    return [*entries, *(file for files in inside for file in files)]


def _read(file: Path) -> dict[str, tuple[str, str]]:
    try:
        about = file.lstat()
        if about.st_mode & WRITABLE_BY_OTHERS or about.st_uid not in (os.geteuid(), 0):
            return {}
        return {str(name): (str(stamp), str(digest)) for name, (stamp, digest) in read_state(file, FORM).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write(file: Path, known: dict[str, tuple[str, str]]) -> None:
    """Write the digests; without write access, the packages are read again next time."""
    with suppress(MachineError, OSError):
        write_state(file, FORM, {name: value for name, value in known.items() if Path(name).exists()})
        file.chmod(file.stat().st_mode & ~WRITABLE_BY_OTHERS)
