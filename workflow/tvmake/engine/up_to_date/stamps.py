"""How files are, as far as the system tells without reading them: type, inode, size and times.

The time of change of the inode is among them, which neither ``touch`` nor ``cp -p`` nor a move can set.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator


class Stamps:
    """Stamps of files, each looked at once however often it is asked for."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, int]] = {}

    def digest(self, files: Iterable[str], trees: Iterable[str] = ()) -> tuple[str, int]:
        """sha256 over the stamps of files, and of directories with all that is in them.

        Returns:
            The digest, and when the newest of them was changed (ns since 1970). Of a file that is not there, the directory
            it was in counts.

        Raises:
            OSError: a directory cannot be read, or a file's directory is not there either.
        """
        sha256 = hashlib.sha256()
        newest_ns = 0
        for name in (*files, *_inside_all(trees)):
            if name not in self._known:
                self._known[name] = _stamp(name)
            text, changed_ns = self._known[name]
            sha256.update(text.encode(errors="surrogateescape"))
            newest_ns = max(newest_ns, changed_ns)
        return sha256.hexdigest(), newest_ns


def _stamp(name: str) -> tuple[str, int]:
    try:
        found = os.lstat(name)
    except FileNotFoundError:
        parent = os.path.dirname(name) or "."  # noqa: PTH120  # of tens of thousands
        return _text(f"{name} is gone", [os.lstat(parent)])
    if stat.S_ISLNK(found.st_mode):
        return _text(name, [found, os.stat(name)])  # noqa: PTH116  # of tens of thousands
    return _text(name, [found])


def _text(name: str, found: list[os.stat_result]) -> tuple[str, int]:
    values = [(one.st_mode, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in found]
    return f"{name}\0{values}\n", max(one.st_ctime_ns for one in found)


def _inside_all(directories: Iterable[str]) -> Iterator[str]:
    for directory in directories:
        yield directory
        if os.path.isdir(directory):  # noqa: PTH112  # of thousands
            yield from _inside(directory)


def _inside(directory: str) -> Iterator[str]:
    with os.scandir(directory) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        yield entry.path
        if entry.is_dir(follow_symlinks=False):
            yield from _inside(entry.path)
