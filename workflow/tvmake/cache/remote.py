"""Entries behind a URL that fsspec understands, object stores above all.

    entries/<key>        one object an entry
    used/<key>           an empty object, written anew when the entry is used
    quarantine/<key>-…   entries that were found bad

Object stores cannot lock and need not: an object appears complete or not at all, and two that remove what was unused for
longest remove the same.
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
from tvmake.cache.store import ENTRIES, QUARANTINE, QUARANTINED, Stored, least_recently_used
from tvmake.storage.remote import RemotePlace, first_line
from tvmake.storage.temporary import temporary_directory

USED = "used"

IMPATIENT = {"config_kwargs": {"connect_timeout": 5, "read_timeout": 60, "retries": {"max_attempts": 2}}}
"""For S3: a cache that is not there must not hold up every step for minutes."""

_KEY = re.compile(r"[0-9a-f]{64}")


class RemoteStore:
    """Entries behind a URL."""

    def __init__(self, url: str, limit_bytes: int | None):
        self.place = url
        self.limit_bytes = limit_bytes
        options = IMPATIENT if url.startswith(("s3://", "s3a://")) else {}
        self._remote = RemotePlace(url, f"cache: {url}", _unreachable, options)
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
        # A file that is uploaded as it is written would become an object even if writing fails half-way.
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

    def quarantine(self, key: str) -> None:
        """See :class:`tvmake.cache.store.Store`."""
        aside = self._remote.path(QUARANTINE, f"{key}-{os.urandom(4).hex()}")
        if not self._remote.is_object_store:
            self._remote.call(lambda: self._system.makedirs(self._remote.path(QUARANTINE), exist_ok=True))
        self._unless_absent(self._system.mv, self._remote.path(ENTRIES, key), aside)
        kept = sorted(self.quarantined(), key=lambda stored: -stored.used_at)
        self.forget_quarantined([stored.key for stored in kept[QUARANTINED:]])

    def entries(self) -> list[Stored]:
        """See :class:`tvmake.cache.store.Store`."""
        used = {stored.key: stored.used_at for stored in self._listed(USED)}
        return [
            Stored(stored.key, stored.size, max(stored.used_at, used.get(stored.key, 0.0)))
            for stored in self._listed(ENTRIES)
            if _KEY.fullmatch(stored.key)
        ]

    def remove(self, keys: list[str]) -> None:
        """See :class:`tvmake.cache.store.Store`."""
        for directory in (ENTRIES, USED):
            self._remove([self._remote.path(directory, key) for key in keys])

    def quarantined(self) -> list[Stored]:
        """See :class:`tvmake.cache.store.Store`."""
        return self._listed(QUARANTINE)

    def forget_quarantined(self, names: list[str]) -> None:
        """See :class:`tvmake.cache.store.Store`."""
        self._remove([self._remote.path(QUARANTINE, name) for name in names])

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

    def _listed(self, directory: str) -> list[Stored]:
        def find() -> dict[str, Any]:
            self._system.invalidate_cache()
            found: dict[str, Any] = {}
            with suppress(FileNotFoundError):
                found = self._system.find(self._remote.path(directory), detail=True)
            return found

        found = self._remote.call(find)
        return [Stored(name.rpartition("/")[2], int(info["size"] or 0), _changed(info)) for name, info in found.items()]

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


def _changed(info: dict[str, Any]) -> float:
    """When an object was written, in seconds; 0 where its backend does not say."""
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
