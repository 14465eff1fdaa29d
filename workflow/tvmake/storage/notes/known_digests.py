"""Digests of files that are unchanged since they were last read, so that large files are not read again.

As in git's index, a file with the same inode, size and times counts as unchanged. The times include the inode's change
time, which ``touch``, ``cp -p`` and moves cannot set.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from tvmake.errors import MachineError
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.files import canonical_json, digest_bytes, digest_file
from tvmake.storage.notes.state_file import read_state, write_state

SETTLED_NS = 2_000_000_000
"""A file that changed more recently may change again within one tick of its file system's clock (two seconds on FAT)."""

DIGESTS = SNAKEMAKE_STATE / "tvmake-digests.json"

FORM = 1
"""Version of the file's format; files of other versions are ignored."""

Stamp = tuple[int, int, int, int]


class KnownDigests:
    """Digests by path, in memory and in one file.

    Args:
        file: the file that keeps them between runs; damaged entries are ignored.
    """

    def __init__(self, file: Path = DIGESTS):
        self.file = file
        self._kept = _read(file)
        self._known = dict(self._kept)

    def digest(self, path: Path | str) -> str:
        """sha256 of a file's content, as hex; of a directory, over the names and contents of its files.

        Raises:
            OSError: the file cannot be read.
        """
        return digest_of(path, self._of_file)

    def has(self, path: Path | str, digest: str) -> bool:
        """Whether a file or directory exists with this digest (:func:`has_digest`)."""
        return has_digest(path, digest, self._of_file)

    def save(self) -> None:
        """Write the digests; without write access, the files are read again next time."""
        if self._known == self._kept:
            return
        existing = {name: known for name, known in self._known.items() if os.path.exists(name)}  # noqa: PTH110
        try:
            write_state(self.file, FORM, existing)
        except (MachineError, OSError):
            return
        self._kept = self._known = existing

    def _of_file(self, path: Path | str) -> str:
        name = os.fspath(path)
        if not name.startswith("/"):
            name = f"{os.getcwd()}/{name}"  # noqa: PTH109  # of tens of thousands
        stamp = _stamp(path)
        known = self._known.get(name)
        if known is not None and known[0] == stamp:
            return known[1]
        digest = digest_file(path)
        if _stamp(path) == stamp and time.time_ns() - stamp[3] > SETTLED_NS:
            self._known[name] = (stamp, digest)
        return digest


def digest_of(path: Path | str, of_file: Callable[[str], str] = digest_file) -> str:
    """sha256 of a file's content, as hex; of a directory, over the names and contents of its files.

    Args:
        of_file: digests a single file.

    Raises:
        OSError: a file cannot be read.
    """
    name = os.fspath(path)
    try:
        return of_file(name)
    except IsADirectoryError:
        pass
    listed = [["/".join(file), of_file("/".join((name, *file)))] for file in _inside(name)]
    return digest_bytes(canonical_json(listed).encode())


def has_digest(path: Path | str, digest: str, of_file: Callable[[str], str] = digest_file) -> bool:
    """Whether a file or directory exists with this digest; False for unreadable files and pipes.

    Args:
        of_file: as for :func:`digest_of`.
    """
    try:
        return digest_of(path, of_file) == digest
    except OSError:
        return False


def stamp_of(path: Path) -> str:
    """Inode, size and times of a file, as text; of a directory, a digest over those of its files.

    Raises:
        OSError: a file does not exist.
    """
    if not path.is_dir():
        return " ".join(map(str, _stamp(path)))
    listed = [[*file, *_stamp(path.joinpath(*file))] for file in _inside(str(path))]
    return digest_bytes(canonical_json(listed).encode())


def _inside(directory: str) -> list[tuple[str, ...]]:
    """The relative names of all files below a directory, as tuples of their parts."""
    # Hidden files are notes of other programs, such as Snakemake's time stamps.
    names_below: list[tuple[str, ...]] = []
    for parent, _, names in os.walk(directory, onerror=_raise):
        parts = tuple(parent[len(directory) :].split("/")[1:])
        names_below += [(*parts, name) for name in names if name[0] != "." and os.path.isfile(f"{parent}/{name}")]  # noqa: PTH113
    return sorted(names_below)


def _raise(error: OSError) -> None:
    raise error


def _stamp(path: Path | str) -> Stamp:
    status = os.stat(path)  # noqa: PTH116  # fast enough for tens of thousands of files
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read(file: Path) -> dict[str, tuple[Stamp, str]]:
    try:
        return {
            str(name): ((int(inode), int(size), int(changed), int(created)), str(digest))
            for name, ((inode, size, changed, created), digest) in read_state(file, FORM).items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}
