"""Stamps of files, without reading them: type, inode, size and times.

They include the inode's change time, which neither ``touch`` nor ``cp -p`` nor a move can set.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator


def file_stamps(files: Iterable[str], trees: Iterable[str] = ()) -> tuple[str, int]:
    """sha256 of the stamps of files, and of directories with their contents.

    Returns:
    The digest, and the newest change time (ns since 1970). For a missing file the directory that contained it counts.

    Raises:
        OSError: a directory cannot be read, or a missing file's directory is missing too.
    """
    names = [*files, *(name for tree in trees for name in (tree, *_walk(tree)))]
    stamps = [_stamp(name) for name in names]
    text = "".join([text for text, _ in stamps])
    newest_ns = max([changed_ns for _, changed_ns in stamps], default=0)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest(), newest_ns


def _stamp(name: str) -> tuple[str, int]:
    try:
        status = os.lstat(name)
    except FileNotFoundError:
        parent = os.lstat(os.path.dirname(name) or ".")  # noqa: PTH120  # of tens of thousands
        return f"{name} is gone\0{_values(parent)}\n", parent.st_ctime_ns
    if stat.S_ISLNK(status.st_mode):
        behind = os.stat(name)  # noqa: PTH116  # of tens of thousands
        return f"{name}\0{_values(status)} {_values(behind)}\n", max(status.st_ctime_ns, behind.st_ctime_ns)
    return f"{name}\0{_values(status)}\n", status.st_ctime_ns


def _values(status: os.stat_result) -> str:
    return f"{status.st_mode} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _walk(directory: str) -> Iterator[str]:
    if not os.path.isdir(directory):  # noqa: PTH112
        return
    with os.scandir(directory) as scanned:
        entries = sorted(scanned, key=lambda entry: entry.name)
    for entry in entries:
        yield entry.path
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)
