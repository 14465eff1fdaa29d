"""Open files from outside: plain files only, which cannot block or be endless, and which stay unchanged while read."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from tvmake.errors import InputError
from tvmake.storage.permissions import unreadable_error

LARGE_BYTES = 256 << 20
SPARSEST = 64
"""A large file with less than this part of it on the disk is refused as sparse: it costs its author nothing and its reader
much. No weights are that empty; file systems that compress count compressed data as data, not as holes."""

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotPlainError(OSError):
    """Not a plain file; ``strerror`` describes it."""

    def __init__(self, description: str, path: Path | str):
        super().__init__(errno.EINVAL, description, str(path))


def broken_link(path: Path | str) -> str | None:
    """The problem with a link to a missing file; None for anything else."""
    link = Path(path)
    if not link.is_symlink() or os.path.exists(link):  # noqa: PTH110  # a loop of links is not a file, and raises no error
        return None
    return f"is a link to a missing file: {path} → {link.readlink()}"


def special_kind(path: Path | str) -> str | None:
    """What a path is, if it is neither a file nor a directory: ``a pipe``; None for these, and where there is nothing."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except (OSError, ValueError):  # or the locale's encoding has no such name
        return None
    return None if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else KINDS.get(stat.S_IFMT(mode), "something else")


def open_plain(path: Path | str) -> BufferedReader:
    """Open a file for reading, without waiting for a writer.

    Raises:
        NotPlainError: it is a pipe, a device, a socket, or mostly holes.
        OSError: from ``open``, also for a directory.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        about = os.fstat(file)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(about.st_mode):
            raise NotPlainError(f"it is {KINDS.get(stat.S_IFMT(about.st_mode), 'something else')}, not a file", path)
        if _is_hollow(file, about):
            raise NotPlainError(f"it is mostly holes: {about.st_size} bytes, {about.st_blocks * 512} on the disk", path)
        os.set_blocking(file, True)
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def read_plain(path: Path, most_bytes: int, description: str, remedy: str | None = None) -> bytes:
    """Read a whole file.

    Args:
        path: the file.
        most_bytes: the maximum size of such a file.
        description: the expected kind of file, for messages (``a lock``).
        remedy: the remedy for a file of another kind.

    Raises:
        FileNotFoundError: the file is missing.
        InputError: it cannot be read, is not a plain file, or is too large.
    """
    try:
        with open_plain(path) as file:
            content = file.read(most_bytes + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable_error(path, error, remedy or "name a plain file") from None
    if len(content) > most_bytes:
        raise InputError(str(path), f"is not a {description}: larger than {most_bytes >> 20} MiB", remedy)
    return content


def encoding_error(path: Path, error: UnicodeDecodeError) -> InputError:
    """Return the error of a text file that is not UTF-8, with its line."""
    line = error.object.count(b"\n", 0, error.start) + 1
    remedy = f"save it as UTF-8: iconv -f ENCODING -t UTF-8 {path.name} > new{path.suffix}"
    return InputError(f"{path}:{line}", "cannot be read: it is not UTF-8 text", remedy)


def _is_hollow(file: int, about: os.stat_result) -> bool:
    if about.st_size < LARGE_BYTES or about.st_blocks * 512 * SPARSEST > about.st_size:
        return False
    try:
        return os.lseek(file, 0, os.SEEK_HOLE) < about.st_size
    except OSError:
        return False
    finally:
        os.lseek(file, 0, os.SEEK_SET)


@contextmanager
def unchanged(files: Iterable[Path]) -> Iterator[None]:
    """Check that files stay unchanged throughout the block.

    The check compares identity, size and the inode's change time, which no program can set.

    Raises:
        InputError: a file changed, was replaced, or was deleted.
    """
    before = {file: _stamp(file) for file in files}
    yield
    for file, stamp in before.items():
        if _stamp(file) != stamp:
            raise InputError(str(file), "changed while it was read", "run again when nothing writes to it")


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        about = file.stat()
    except OSError:
        return None
    return (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
