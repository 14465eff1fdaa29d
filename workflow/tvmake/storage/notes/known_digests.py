"""Digests of files that have not changed since they were last read, so that big ones are not read again.

As git does for its working tree: a file with the same inode, size and times is taken for the same file. The time of
change of the inode is among them, which neither ``touch`` nor ``cp -p`` nor a move can set.
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
"""A file that changed more recently may change again within one tick of its file system's clock (FAT's has two seconds)."""

DIGESTS = SNAKEMAKE_STATE / "tvmake-digests.json"

FORM = 1
"""Of the file of known digests; another one is not read."""

Stamp = tuple[int, int, int, int]


class KnownDigests:
    """Digests by path, in memory and in one file.

    Args:
        file: where they are kept from one run to the next; what is damaged there is not used.
    """

    def __init__(self, file: Path = DIGESTS):
        self.file = file
        self._kept = _read(file)
        self._known = dict(self._kept)

    def digest(self, path: Path | str) -> str:
        """sha256 of a file's content, as hex; of a directory, of the names and contents of the files in it.

        Raises:
            OSError: the file cannot be read.
        """
        return digest_of(path, self._of_file)

    def has(self, path: Path | str, digest: str) -> bool:
        """Whether a file or directory is there and has this digest (:func:`has_digest`)."""
        return has_digest(path, digest, self._of_file)

    def save(self) -> None:
        """Keep what is known; a directory that cannot be written only costs reading the files again."""
        if self._known == self._kept:
            return
        there = {name: known for name, known in self._known.items() if os.path.exists(name)}  # noqa: PTH110
        try:
            write_state(self.file, FORM, there)
        except (MachineError, OSError):
            return
        self._kept = self._known = there

    def _of_file(self, path: Path | str) -> str:
        name = os.path.join(os.getcwd(), path)  # noqa: PTH118, PTH109  # of tens of thousands
        stamp = _stamp(path)
        known = self._known.get(name)
        if known is not None and known[0] == stamp:
            return known[1]
        digest = digest_file(path)
        if _stamp(path) == stamp and time.time_ns() - stamp[3] > SETTLED_NS:
            self._known[name] = (stamp, digest)
        return digest


def digest_of(path: Path | str, of_file: Callable[[str], str] = digest_file) -> str:
    """sha256 of a file's content, as hex; of a directory, of the names and contents of the files in it.

    Args:
        of_file: gives one file's.

    Raises:
        OSError: a file cannot be read.
    """
    name = os.fspath(path)
    if not os.path.isdir(name):  # noqa: PTH112  # of tens of thousands
        return of_file(name)
    listed = [["/".join(file), of_file("/".join((name, *file)))] for file in _inside(name)]
    return digest_bytes(canonical_json(listed).encode())


def has_digest(path: Path | str, digest: str, of_file: Callable[[str], str] = digest_file) -> bool:
    """Whether a file or directory is there and has this digest; what cannot be read, a pipe say, has none.

    Args:
        of_file: as for :func:`digest_of`.
    """
    try:
        return digest_of(path, of_file) == digest
    except OSError:
        return False


def stamp_of(path: Path) -> str:
    """Inode, size and times of a file, as text; of a directory, a digest of those of the files in it.

    Raises:
        OSError: a file is not there.
    """
    if not path.is_dir():
        return " ".join(map(str, _stamp(path)))
    listed = [[*file, *_stamp(path.joinpath(*file))] for file in _inside(str(path))]
    return digest_bytes(canonical_json(listed).encode())


def _inside(directory: str) -> list[tuple[str, ...]]:
    """The names of files in a directory and those in it, from there, as parts."""
    # Hidden files are notes of programs that work here, Snakemake's time stamps among them.
    found: list[tuple[str, ...]] = []
    for place, _, names in os.walk(directory, onerror=_raise):
        parts = tuple(place[len(directory) :].split("/")[1:])
        found += [(*parts, name) for name in names if name[0] != "." and os.path.isfile(f"{place}/{name}")]  # noqa: PTH113
    return sorted(found)


def _raise(error: OSError) -> None:
    raise error


def _stamp(path: Path | str) -> Stamp:
    known = os.stat(path)  # noqa: PTH116  # of tens of thousands
    return known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns


def _read(file: Path) -> dict[str, tuple[Stamp, str]]:
    try:
        return {
            str(name): ((int(inode), int(size), int(changed), int(created)), str(digest))
            for name, ((inode, size, changed, created), digest) in read_state(file, FORM).items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}
