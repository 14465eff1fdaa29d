"""Open files from elsewhere: plain files only, which neither block nor go on for ever, and that stay the same while read."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from tvmake.errors import InputError
from tvmake.storage.permissions import unreadable

LARGE_BYTES = 256 << 20
SPARSEST = 64
"""A file is refused as hollow if it is large and less than this part of it is on the disk: reading it costs nothing to
its author and much to us. No weights are that empty; file systems that compress say so where there are no holes."""

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotPlainError(OSError):
    """Something else than a plain file; ``strerror`` says what."""

    def __init__(self, what: str, path: Path | str):
        super().__init__(errno.EINVAL, what, str(path))


def broken_link(path: Path | str) -> str | None:
    """What is wrong with a link that leads to no file; None for anything else, and for nothing at all."""
    link = Path(path)
    if not link.is_symlink() or os.path.exists(link):  # noqa: PTH110  # a loop is no file, and no error
        return None
    return f"is a link that leads to no file: {path} → {link.readlink()}"


def open_plain(path: Path | str) -> BufferedReader:
    """Open a file for reading, without ever waiting for somebody to write to it.

    Raises:
        NotPlainError: it is a pipe, a device, a socket, or mostly holes.
        OSError: as ``open``; a directory among them.
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
        if about.st_size == 0 and _is_the_kernels(file):
            raise NotPlainError("it is made by the kernel as it is read, not a file", path)
        os.set_blocking(file, True)
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def read_plain(path: Path, most_bytes: int, what: str, remedy: str | None = None) -> bytes:
    """The content of a file that is read as a whole.

    Args:
        path: the file.
        most_bytes: more than any such file has.
        what: what it should be, for messages (``a lock``).
        remedy: what to do about one that it is not.

    Raises:
        FileNotFoundError: there is none.
        InputError: it cannot be read, is no plain file, or too large.
    """
    try:
        with open_plain(path) as file:
            content = file.read(most_bytes + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error, remedy or "name a plain file") from None
    if len(content) > most_bytes:
        raise InputError(str(path), f"is no {what}: larger than {most_bytes >> 20} MiB", remedy)
    return content


def _is_the_kernels(file: int) -> bool:
    """Whether a file without a size has content all the same, or waits for some, as /proc/kmsg does."""
    try:
        has_content = bool(os.read(file, 1))
    except BlockingIOError:
        return True
    os.lseek(file, 0, os.SEEK_SET)
    return has_content and os.fstat(file).st_size == 0


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
    """Make sure that files stay the same throughout the block, whatever reads them there.

    The time of change of an inode, which no program can set, is compared, with size and identity.

    Raises:
        InputError: one of them changed, was replaced, or is gone.
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
