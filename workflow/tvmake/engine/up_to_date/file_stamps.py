"""How files are, as far as the system tells without reading them: type, inode, size and times.

The time of change of the inode is among them, which neither ``touch`` nor ``cp -p`` nor a move can set.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator


def file_stamps(files: Iterable[str], trees: Iterable[str] = ()) -> tuple[str, int]:
    """sha256 over the stamps of files, and of directories with all that is in them.

    Returns:
        The digest, and when the newest of them was changed (ns since 1970). Of a file that is not there, the directory it was in
        counts.

    Raises:
        OSError: a directory cannot be read, or a file's directory is not there either.
    """
    names = [*files, *(name for tree in trees for name in (tree, *_inside(tree)))]
    stamps = [_stamp(name) for name in names]
    text = "".join([text for text, _ in stamps])
    newest_ns = max([changed_ns for _, changed_ns in stamps], default=0)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest(), newest_ns


def _stamp(name: str) -> tuple[str, int]:
    try:
        found = os.lstat(name)
    except FileNotFoundError:
        parent = os.lstat(os.path.dirname(name) or ".")  # noqa: PTH120  # of tens of thousands
        return f"{name} is gone\0{_values(parent)}\n", parent.st_ctime_ns
    if stat.S_ISLNK(found.st_mode):
        behind = os.stat(name)  # noqa: PTH116  # of tens of thousands
        return f"{name}\0{_values(found)} {_values(behind)}\n", max(found.st_ctime_ns, behind.st_ctime_ns)
    return f"{name}\0{_values(found)}\n", found.st_ctime_ns


def _values(found: os.stat_result) -> str:
    return f"{found.st_mode} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _inside(directory: str) -> Iterator[str]:
    if not os.path.isdir(directory):  # noqa: PTH112
        return
    with os.scandir(directory) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        yield entry.path
        if entry.is_dir(follow_symlinks=False):
            yield from _inside(entry.path)
