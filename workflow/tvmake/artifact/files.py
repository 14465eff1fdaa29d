"""Atomic writes and digests.

A reader never meets half a file: content goes to a temporary file in the same directory and is renamed over the
destination once it is complete and flushed. A process that is killed leaves at most a ``.tvmake-*`` file or directory
behind, which the next writer on this machine to that directory removes once its owner is gone.
"""

import errno
import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tvmake.errors import MachineError

TEMPORARY_PREFIX = ".tvmake-"

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""The system's codes for a full disk and an exhausted quota."""


def digest_bytes(data: bytes) -> str:
    """sha256 of ``data``, in full, as hex."""
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    """sha256 of a file's content, in full, as hex."""
    with path.open("rb") as file:
        return _digest_stream(file)


def _digest_stream(file) -> str:
    sha256 = hashlib.sha256()
    while block := file.read(1 << 20):
        sha256.update(block)
    return sha256.hexdigest()


def canonical_json(value: Any) -> str:
    """One spelling for equal values: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@contextmanager
def atomic_path(destination: Path, *, suffix: str | None = None) -> Iterator[Path]:
    """Give a temporary path beside ``destination``; rename it there when the block ends without an error.

    Args:
        suffix: the temporary file's suffix, for writers that go by it; by default the destination's.

    Raises:
        MachineError: the directory cannot be written, or the disk is full.
    """
    destination = Path(destination)
    with writing(destination):
        _prepare(destination.parent)
        handle, name = tempfile.mkstemp(
            prefix=_own_prefix(), suffix=suffix or destination.suffix, dir=destination.parent
        )
        os.close(handle)
    temporary = Path(name)
    try:
        with writing(destination):
            yield temporary
            # mkstemp makes files private; outputs follow the umask like any other file.
            temporary.chmod(0o666 & ~_umask())
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(destination)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_directory(destination: Path) -> Iterator[Path]:
    """Give a temporary directory beside ``destination``; put it there when the block ends without an error.

    A directory that is there already is replaced.

    Raises:
        MachineError: as for :func:`atomic_path`.
    """
    destination = Path(destination)
    with writing(destination):
        _prepare(destination.parent)
        temporary = Path(tempfile.mkdtemp(prefix=_own_prefix(), dir=destination.parent))
    try:
        with writing(destination):
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            if destination.is_dir():
                shutil.rmtree(destination)
            temporary.replace(destination)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def scratch_directory(parent: Path) -> Iterator[Path]:
    """Give a directory inside ``parent``, on its disk, to work in; it is gone afterwards.

    Raises:
        MachineError: as for :func:`atomic_path`.
    """
    with writing(parent):
        _prepare(parent)
        temporary = Path(tempfile.mkdtemp(prefix=_own_prefix(), dir=parent))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_bytes(destination: Path, data: bytes) -> None:
    """Write ``data`` atomically."""
    with atomic_path(destination) as temporary:
        temporary.write_bytes(data)


def write_text(destination: Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically."""
    write_bytes(destination, text.encode())


def write_json(destination: Path, value: Any) -> None:
    """Write ``value`` as indented JSON with sorted keys, atomically."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_text(destination, text + "\n")


def no_space(where: str) -> MachineError:
    """What to say when the disk that holds ``where`` is full, or the user's quota."""
    return MachineError(where, "no space left on the disk", "free some space and run the same command again")


@contextmanager
def writing(destination: Path) -> Iterator[None]:
    """Turn the operating system's refusals to write ``destination`` into one clear line.

    Raises:
        MachineError: no space, a limit on file sizes, no permission, or a read-only file system.
    """
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise no_space(str(destination)) from error
        if error.errno == errno.EFBIG:
            raise MachineError(
                str(destination), "is larger than the files this process may write", "raise the limit (ulimit -f)"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR):
            raise MachineError(
                str(destination),
                f"cannot be written ({os.strerror(error.errno)})",
                "make the directory writable, or choose another one with --directory",
            ) from error
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _own_prefix() -> str:
    """``.tvmake-<machine>.<process>-``: process numbers mean nothing on the other machines of a shared disk."""
    return f"{TEMPORARY_PREFIX}{_machine()}.{os.getpid()}-"


@cache
def _machine() -> str:
    return digest_bytes(platform.node().encode())[:8]


def _prepare(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for path in directory.glob(f"{TEMPORARY_PREFIX}{_machine()}.*"):
        owner = path.name.removeprefix(f"{TEMPORARY_PREFIX}{_machine()}.").partition("-")[0]
        if owner.isdigit() and not _is_alive(int(owner)):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
