"""Atomic writes and digests.

Readers never see a partial file: content goes to a temporary file in the same directory, which is renamed to the
destination after it is complete and flushed. A killed process leaves at most a ``.tvmake-*`` directory, which the next
writer to that directory removes (see :mod:`tvmake.storage.temporary`).
"""

import errno
import hashlib
import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

from tvmake.errors import MachineError
from tvmake.storage.permissions import DENIED, how_to_permit, umask
from tvmake.storage.plain_files import open_plain
from tvmake.storage.refusals import NO_SPACE, no_space, too_large
from tvmake.storage.temporary import locked_directory

TEMPORARY_PREFIX = ".tvmake-"
NEW = "new"


def digest_bytes(data: bytes) -> str:
    """sha256 of ``data`` as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path | str) -> str:
    """sha256 of a file's content as 64 hexadecimal digits.

    Raises:
        OSError: it cannot be read, or is not a plain file.
    """
    with open_plain(path) as file:
        return _digest_stream(file)


class Sink(Protocol):
    """What can be written to, and knows its position."""

    def write(self, block: bytes | memoryview, /) -> int: ...
    def tell(self) -> int: ...


class DigestSink:
    """Computes size and sha256 of what is written, and forwards it to a file, if any."""

    def __init__(self, file: Sink | None = None):
        self._file, self._sha256, self._size = file, hashlib.sha256(), 0

    def write(self, block: bytes | memoryview, /) -> int:
        self._sha256.update(block)
        self._size += len(block)
        if self._file is not None:
            self._file.write(block)
        return len(block)

    def tell(self) -> int:
        return self._size

    def hexdigest(self) -> str:
        return self._sha256.hexdigest()


def _digest_stream(file: IO[bytes]) -> str:
    sha256 = hashlib.sha256()
    while block := file.read(1 << 20):
        sha256.update(block)
    return sha256.hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with one representation for equal values: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@contextmanager
def atomic_path(destination: Path, *, aside: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path beside ``destination``, and rename it to the destination if the block ends without an error.

    Args:
        aside: another directory of the same disk for the temporary file. The directory is listed to remove the files of killed
            writers, which is slow beside thousands of files.

    Raises:
        MachineError: the directory cannot be written, or the disk is full.
    """
    destination = Path(destination)
    with directory_beside(destination, aside) as directory:
        temporary = directory / f"{NEW}{destination.suffix}"
        with writing(destination):
            temporary.touch()
            yield temporary
            # Outputs follow the umask like any other file.
            temporary.chmod(0o666 & ~umask())
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(destination)


@contextmanager
def atomic_directory(destination: Path) -> Iterator[Path]:
    """Yield a temporary directory beside ``destination``, and move it there if the block ends without an error.

    An existing directory, link or file is replaced.

    Raises:
        MachineError: as for :func:`atomic_path`.
    """
    destination = Path(destination)
    with directory_beside(destination) as directory:
        temporary = directory / NEW
        with writing(destination):
            temporary.mkdir()
            yield temporary
            temporary.chmod(0o777 & ~umask())
            if destination.is_symlink() or destination.is_file():
                destination.unlink()
            elif destination.is_dir():
                shutil.rmtree(destination)
            temporary.replace(destination)


@contextmanager
def scratch_directory(parent: Path) -> Iterator[Path]:
    """Yield a temporary directory inside ``parent``, which is removed after the block.

    Raises:
        MachineError: as for :func:`atomic_path`.
    """
    with directory_beside(Path(parent) / NEW) as directory:
        yield directory


@contextmanager
def directory_beside(destination: Path, aside: Path | None = None) -> Iterator[Path]:
    """Yield a directory for a file that will be moved to ``destination``; removed after the block.

    Args:
        aside: a directory of the same file system; default: the destination's.

    Raises:
        MachineError: the directory cannot be written.
    """
    directory = destination.parent if aside is None else aside
    with ExitStack() as stack:
        with making_directories(destination):
            for parent in (destination.parent, directory):
                parent.mkdir(parents=True, exist_ok=True)
            temporary = stack.enter_context(locked_directory(directory, TEMPORARY_PREFIX))
        yield temporary


def copy_file(source: Path, destination: Path, *, may_link: bool = False) -> None:
    """Give a file's content another name, atomically; without a second copy on the disk if the file system can do so.

    Btrfs, XFS and others share the blocks of two files until one is changed. Elsewhere ``may_link`` permits a hard link: whoever
    writes into one of the two files, instead of replacing it, then changes both. A link also shares times, owner and mode.

    Raises:
        OSError: the source cannot be read.
        MachineError: as for :func:`atomic_path`.
    """
    with atomic_path(destination) as temporary:
        if not _share_blocks(source, temporary) and not (may_link and _link(source, temporary)):
            shutil.copyfile(source, temporary)


_FICLONE = 0x40049409
"""Linux's ioctl that makes a file share another one's blocks (linux/fs.h)."""


def _share_blocks(source: Path, destination: Path) -> bool:
    if sys.platform != "linux":
        return False
    import fcntl

    with source.open("rb") as original, destination.open("wb") as copy, suppress(OSError):
        fcntl.ioctl(copy, _FICLONE, original.fileno())
        return True
    return False


def _link(source: Path, destination: Path) -> bool:
    """Replace a file by a hard link, unless the two would differ in owner or mode."""
    about = source.stat()
    if about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) != 0o666 & ~umask():
        return False
    link = destination.with_name("link")
    with suppress(OSError):  # another file system, or one without links
        os.link(source.resolve(), link)
        link.replace(destination)
        return True
    return False


def write_bytes(destination: Path, data: bytes, *, aside: Path | None = None) -> None:
    """Write ``data`` atomically; ``aside`` as for :func:`atomic_path`."""
    with atomic_path(destination, aside=aside) as temporary:
        temporary.write_bytes(data)


def write_text(destination: Path, text: str, *, aside: Path | None = None) -> None:
    """Write ``text`` as UTF-8, atomically; ``aside`` as for :func:`atomic_path`."""
    write_bytes(destination, text.encode(), aside=aside)


def write_json(destination: Path, value: Any) -> None:
    """Write ``value`` as indented JSON with sorted keys, atomically."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_text(destination, text + "\n")


@contextmanager
def writing(destination: Path) -> Iterator[None]:
    """Turn the operating system's failure to write ``destination`` into a message.

    Raises:
        MachineError: no space, a limit on file sizes, no permission, or a read-only file system.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise no_space(str(destination)) from error
        if error.errno == errno.EFBIG:
            raise too_large(str(destination)) from error
        if error.errno == errno.ENAMETOOLONG:
            raise MachineError(
                str(destination), "cannot be written (the name is too long)", "choose a shorter one"
            ) from error
        if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY):
            raise MachineError(
                str(destination),
                f"cannot be written ({os.strerror(error.errno)})",
                "move the file that has its name, or its directory's name, elsewhere",
            ) from error
        if error.errno in DENIED:
            problem = f"cannot be written ({os.strerror(error.errno)})"
            raise MachineError(str(destination), problem, how_to_permit(destination)) from error
        raise


@contextmanager
def making_directories(destination: Path) -> Iterator[None]:
    """Like :func:`writing`, for creating directories: /proc and the like accept no directories of users."""
    with writing(destination):
        try:
            yield
        except FileNotFoundError as error:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM)) from error
