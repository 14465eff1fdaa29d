"""Entries behind a URL of fsspec, usually an object store.

        entries/<key>        one object per entry
        used/<key>           an empty object, rewritten when the entry is used

Object stores have no locks and need none: an object appears complete or not at all, and two processes that remove the least
recently used entries remove the same ones.
"""

import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from tvmake.cache.entry import BLOCK
from tvmake.cache.errors import CacheTroubleError
from tvmake.cache.store import ENTRIES, Stored, least_recently_used
from tvmake.storage.remote import RemoteRoot, first_line
from tvmake.storage.temporary import temporary_directory

USED = "used"

IMPATIENT = {"config_kwargs": {"connect_timeout": 5, "read_timeout": 60, "retries": {"max_attempts": 2}}}
"""For S3: an unreachable cache must not delay every step for minutes."""

_KEY = re.compile(r"[0-9a-f]{64}")


class RemoteStore:
    """Entries behind a URL."""

    def __init__(self, url: str, limit_bytes: int | None):
        self.location = url
        self.limit_bytes = limit_bytes
        options = IMPATIENT if url.startswith(("s3://", "s3a://")) else {}
        self._remote = RemoteRoot(url, f"cache: {url}", _unreachable, options)
        self._system = self._remote.system

    @contextmanager
    def open(self, key: str) -> Iterator[tuple[BinaryIO, int] | None]:
        """See :class:`tvmake.cache.store.Store`."""
        path = self._remote.path(ENTRIES, key)
        try:
            self._system.invalidate_cache()
            size = int(self._system.info(path)["size"])
            # Some of fsspec's files cannot read a line of limited length.
            file = io.BufferedReader(self._system.open(path, "rb"), BLOCK)
        except FileNotFoundError:
            yield None
            return
        except Exception as error:
            raise _unreachable(error) from error
        try:
            yield file, size
        finally:
            with suppress(Exception):
                file.close()

    def put(self, key: str, size: int, write: Callable[[BinaryIO], None]) -> None:
        """See :class:`tvmake.cache.store.Store`."""
        if self.limit_bytes is not None:
            if size > self.limit_bytes:
                raise CacheTroubleError(f"an entry of {size} bytes is larger than the size limit")
            self.shrink(self.limit_bytes - size, keep=key)
        path = self._remote.path(ENTRIES, key)
        # A streamed upload would create an object even if writing fails in the middle.
        with temporary_directory("tvmake-cache-") as directory:
            entry = Path(directory) / key
            try:
                with entry.open("wb") as file:
                    write(file)
            except OSError as error:
                raise CacheTroubleError(
                    f"cannot be prepared in {directory} ({os.strerror(error.errno or 0)})"
                ) from error
            self._remote.write(path, lambda name: self._system.put_file(str(entry), name))
        self.note_use(key)

    def note_use(self, key: str) -> None:
        """See :class:`tvmake.cache.store.Store`."""
        with suppress(Exception):  # those who may only read leave no notes
            if not self._remote.is_object_store:
                self._system.makedirs(self._remote.path(USED), exist_ok=True)
            self._system.pipe_file(self._remote.path(USED, key), b"")

    def entries(self) -> list[Stored]:
        """See :class:`tvmake.cache.store.Store`."""
        used = {stored.key: stored.used_at for stored in self._list_objects(USED)}
        return [
            Stored(stored.key, stored.size, max(stored.used_at, used.get(stored.key, 0.0)))
            for stored in self._list_objects(ENTRIES)
            if _KEY.fullmatch(stored.key)
        ]

    def remove(self, keys: list[str]) -> None:
        """See :class:`tvmake.cache.store.Store`."""
        for directory in (ENTRIES, USED):
            self._remove([self._remote.path(directory, key) for key in keys])

    def shrink(self, limit_bytes: int, keep: str | None = None) -> list[Stored]:
        """See :class:`tvmake.cache.store.Store`."""
        entries = [stored for stored in self.entries() if stored.key != keep]
        gone = least_recently_used(entries, sum(stored.size for stored in entries) - limit_bytes)
        self.remove([stored.key for stored in gone])
        return gone

    def problem(self) -> str | None:
        """See :class:`tvmake.cache.store.Store`."""
        try:
            probe = self._remote.temporary(self._remote.path("probe"))
            self._remote.call(self._system.pipe_file, probe, b"")
            self._remote.call(self._system.rm_file, probe)
        except CacheTroubleError as error:
            return str(error)
        return None

    def _list_objects(self, directory: str) -> list[Stored]:
        def find() -> dict[str, Any]:
            self._system.invalidate_cache()
            details: dict[str, Any] = {}
            with suppress(FileNotFoundError):
                details = self._system.find(self._remote.path(directory), detail=True)
            return details

        details = self._remote.call(find)
        return [
            Stored(name.rpartition("/")[2], int(info["size"] or 0), _modification_time(info))
            for name, info in details.items()
        ]

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            self._unless_absent(self._system.rm_file, path)

    def _unless_absent(self, work: Callable[..., object], *arguments: Any) -> None:
        def attempt() -> None:
            with suppress(FileNotFoundError):
                work(*arguments)

        self._remote.call(attempt)


def _unreachable(error: BaseException) -> CacheTroubleError:
    return CacheTroubleError(f"cannot be reached ({first_line(error)})")


def _modification_time(info: dict[str, Any]) -> float:
    """The modification time of an object in seconds; 0 if its backend does not report it."""
    for name in ("LastModified", "mtime", "updated", "last_modified", "created"):
        value = info.get(name)
        if isinstance(value, str):
            with suppress(ValueError):
                value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return 0.0
