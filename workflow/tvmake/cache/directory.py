"""Entries in a directory of this machine's file systems, including network file systems.

        entries/<key>        one file per entry; its modification time is that of its last use
        lock                 held during removals

An entry is written under another name and renamed, so readers see it complete or not at all and need no lock. A reader of an
open entry can read it to its end even if it is removed.
"""

import errno
import io
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from tvmake.cache.errors import CacheTroubleError
from tvmake.cache.store import ENTRIES, Stored, least_recently_used
from tvmake.errors import InputError, MachineError
from tvmake.storage.files import atomic_path

PATIENCE_S = 30.0
"""How long to wait for another process that removes entries."""

TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of tvmake: backups may leave it out.\n"
"""https://bford.info/cachedir/"""

_KEY = re.compile(r"[0-9a-f]{64}")


class DirectoryStore:
    """Entries in a directory."""

    def __init__(self, root: Path, limit_bytes: int | None):
        self.root = root
        self.limit_bytes = limit_bytes
        self.location = str(root)
        self._entries = root / ENTRIES
        try:
            mode = root.stat().st_mode
        except OSError:
            return  # missing, or reported when it is used
        if not stat.S_ISDIR(mode):
            raise InputError(f"cache: {root}", "is not a directory", "name another one")
        if mode & stat.S_IWOTH:
            raise InputError(
                f"cache: {root}",
                "everyone may write there, and so put code into your packages",
                f"chmod o-w {root}, and share it with a group",
            )

    @contextmanager
    def open(self, key: str) -> Iterator[tuple[BinaryIO, int] | None]:
        """See :class:`tvmake.cache.store.Store`."""
        try:
            # Without O_NOFOLLOW a link could have any file read, and without O_NONBLOCK a pipe would be waited for.
            handle = os.open(self._entries / key, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                yield None
                return
            if error.errno not in (errno.ELOOP, errno.ENXIO):
                raise self._trouble("cannot be read", error) from error
            yield io.BytesIO(), -1  # a link or a pipe: no entry
            return
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            os.close(handle)
            yield io.BytesIO(), -1
            return
        with os.fdopen(handle, "rb") as file:
            yield file, status.st_size

    def put(self, key: str, size: int, write: Callable[[BinaryIO], None]) -> None:
        """See :class:`tvmake.cache.store.Store`."""
        if self.limit_bytes is not None and size > self.limit_bytes:
            raise CacheTroubleError(f"an entry of {size} bytes is larger than the size limit")
        try:
            self._make()
            with atomic_path(self._entries / key) as temporary:
                with temporary.open("wb") as file:
                    write(file)
                if self.limit_bytes is not None:
                    # Entries that are being written count too: they will get their names.
                    self._shrink(self.limit_bytes, keep=key)
            with suppress(OSError):
                (self._entries / key).chmod(self._file_mode())
        except OSError as error:
            raise self._trouble("cannot be written", error) from error
        except MachineError as error:
            raise CacheTroubleError(error.problem) from error

    def note_use(self, key: str) -> None:
        """See :class:`tvmake.cache.store.Store`."""
        with suppress(OSError):
            os.utime(self._entries / key)

    def entries(self) -> list[Stored]:
        """See :class:`tvmake.cache.store.Store`."""
        return [stored for stored in self._files(self._entries) if _KEY.fullmatch(stored.key)]

    def remove(self, keys: list[str]) -> None:
        """See :class:`tvmake.cache.store.Store`."""
        self._unlink(self._entries, keys)

    def shrink(self, limit_bytes: int) -> list[Stored]:
        """See :class:`tvmake.cache.store.Store`."""
        if not self._entries.is_dir():
            return []
        try:
            return self._shrink(limit_bytes)
        except OSError as error:
            raise self._trouble("cannot be written", error) from error

    def problem(self) -> str | None:
        """See :class:`tvmake.cache.store.Store`."""
        try:
            self._make()
            with tempfile.TemporaryFile(dir=self._entries):
                return None
        except OSError as error:
            return f"cannot be written ({os.strerror(error.errno or 0)})"

    def _make(self) -> None:
        if not self.root.is_dir():
            try:
                self.root.parent.mkdir(parents=True, exist_ok=True)
                # Entries become code that runs: others may only write them with the owner's permission.
                self.root.mkdir(mode=0o700, exist_ok=True)
            except FileExistsError as error:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
        self._make_like_root(self._entries)
        tag = self.root / "CACHEDIR.TAG"
        if not tag.exists():
            tag.write_text(TAG)

    def _make_like_root(self, directory: Path) -> None:
        if not directory.is_dir():
            directory.mkdir(exist_ok=True)
            directory.chmod(self._mode())  # mkdir applies the umask

    def _mode(self) -> int:
        return stat.S_IMODE(self.root.stat().st_mode) & 0o777

    def _file_mode(self) -> int:
        """As with git's shared repositories: who may write the directory may note uses too."""
        return 0o600 | (self._mode() & 0o064)

    def _shrink(self, limit_bytes: int, keep: str | None = None) -> list[Stored]:
        lock = FileLock(self.root / "lock", timeout=PATIENCE_S, mode=self._file_mode())
        try:
            with lock:
                # The replaced entry is removed by the rename.
                files = [stored for stored in self._files(self._entries) if stored.key != keep]
                excess = sum(stored.size for stored in files) - limit_bytes
                gone = least_recently_used([stored for stored in files if _KEY.fullmatch(stored.key)], excess)
                self.remove([stored.key for stored in gone])
                return gone
        except Timeout:
            raise CacheTroubleError("another process holds its lock") from None

    def _files(self, directory: Path) -> list[Stored]:
        files = []
        try:
            with os.scandir(directory) as listed:
                for item in listed:
                    with suppress(FileNotFoundError):
                        known = item.stat(follow_symlinks=False)
                        size = _total_size(Path(item)) if stat.S_ISDIR(known.st_mode) else known.st_size
                        files.append(Stored(item.name, size, known.st_mtime))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._trouble("cannot be read", error) from error
        return files

    def _unlink(self, directory: Path, names: list[str]) -> None:
        for name in names:
            path = directory / name
            try:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)  # somebody's idea of an entry
                else:
                    path.unlink(missing_ok=True)
            except OSError as error:
                raise self._trouble("cannot be written", error) from error

    def _trouble(self, what: str, error: OSError) -> CacheTroubleError:
        return CacheTroubleError(f"{what} ({os.strerror(error.errno or 0)})")


def _total_size(directory: Path) -> int:
    """The total size of a directory's files in bytes, including files that are being written."""
    sizes = 0
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):
            known = path.lstat()
            sizes += known.st_size if stat.S_ISREG(known.st_mode) else 0
    return sizes
