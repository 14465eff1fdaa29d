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
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from tvmake.artifact.files import TEMPORARY_PREFIX
from tvmake.cache.entry import BLOCK, said
from tvmake.cache.store import ENTRIES, QUARANTINE, QUARANTINED, Stored, least_recently_used
from tvmake.cache.trouble import CacheTroubleError
from tvmake.errors import InputError, MachineError
from tvmake.records.remote import OBJECT_STORES, PACKAGES

USED = "used"

IMPATIENT = {"config_kwargs": {"connect_timeout": 5, "read_timeout": 60, "retries": {"max_attempts": 2}}}
"""For S3: a cache that is not there must not hold up every step for minutes."""

_KEY = re.compile(r"[0-9a-f]{64}")

Answer = TypeVar("Answer")


class RemoteStore:
    """Entries behind a URL."""

    def __init__(self, url: str, limit_bytes: int | None):
        from fsspec.core import url_to_fs

        self.place = url
        self.limit_bytes = limit_bytes
        protocol = url.partition("://")[0]
        try:
            self._system, root = url_to_fs(url, **(IMPATIENT if protocol in ("s3", "s3a") else {}))
        except ImportError as error:
            package = PACKAGES.get(protocol, "'fsspec[full]'")
            raise MachineError(
                f"cache: {url}", f"a package for {protocol}:// is missing", f"pip install {package}"
            ) from error
        except ValueError as error:
            raise InputError(f"cache: {url}", "is no address that fsspec knows", "use a directory, s3://…") from error
        except Exception as error:  # each of fsspec's backends has exceptions of its own
            raise self._unreachable(error) from error
        self._root = root.rstrip("/")
        self._is_object_store = protocol in OBJECT_STORES

    @contextmanager
    def open(self, key: str) -> Iterator[tuple[BinaryIO, int] | None]:
        """See :class:`tvmake.cache.store.Store`."""
        path = self._path(ENTRIES, key)
        try:
            self._system.invalidate_cache()
            size = int(self._system.info(path)["size"])
            # Some of fsspec's files cannot read a line of limited length.
            file = io.BufferedReader(self._system.open(path, "rb"), BLOCK)
        except FileNotFoundError:
            yield None
            return
        except Exception as error:
            raise self._unreachable(error) from error
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
        path = self._path(ENTRIES, key)
        # A file that is uploaded as it is written would become an object even if writing fails half-way.
        with tempfile.TemporaryDirectory(prefix="tvmake-cache-") as directory:
            entry = Path(directory) / key
            try:
                with entry.open("wb") as file:
                    write(file)
            except OSError as error:
                raise CacheTroubleError(
                    f"cannot be prepared in {directory} ({os.strerror(error.errno or 0)})"
                ) from error
            self._asked(self._put if self._is_object_store else self._put_and_rename, str(entry), path)
        self.note_use(key)

    def note_use(self, key: str) -> None:
        """See :class:`tvmake.cache.store.Store`."""
        with suppress(Exception):  # those who may only read leave no notes
            if not self._is_object_store:
                self._system.makedirs(self._path(USED), exist_ok=True)
            self._system.pipe_file(self._path(USED, key), b"")

    def quarantine(self, key: str) -> None:
        """See :class:`tvmake.cache.store.Store`."""
        aside = self._path(QUARANTINE, f"{key}-{os.urandom(4).hex()}")
        if not self._is_object_store:
            self._asked(lambda: self._system.makedirs(self._path(QUARANTINE), exist_ok=True))
        self._asked(self._system.mv, self._path(ENTRIES, key), aside, absent_ok=True)
        kept = sorted(self.quarantined(), key=lambda one: -one.used_at)
        self.forget_quarantined([one.key for one in kept[QUARANTINED:]])

    def entries(self) -> list[Stored]:
        """See :class:`tvmake.cache.store.Store`."""
        used = {one.key: one.used_at for one in self._listed(USED)}
        return [
            Stored(one.key, one.size, max(one.used_at, used.get(one.key, 0.0)))
            for one in self._listed(ENTRIES)
            if _KEY.fullmatch(one.key)
        ]

    def remove(self, keys: list[str]) -> None:
        """See :class:`tvmake.cache.store.Store`."""
        for directory in (ENTRIES, USED):
            self._remove([self._path(directory, key) for key in keys])

    def quarantined(self) -> list[Stored]:
        """See :class:`tvmake.cache.store.Store`."""
        return self._listed(QUARANTINE)

    def forget_quarantined(self, names: list[str]) -> None:
        """See :class:`tvmake.cache.store.Store`."""
        self._remove([self._path(QUARANTINE, name) for name in names])

    def shrink(self, limit_bytes: int, keep: str | None = None) -> list[Stored]:
        """See :class:`tvmake.cache.store.Store`."""
        entries = [one for one in self.entries() if one.key != keep]
        gone = least_recently_used(entries, sum(one.size for one in entries) - limit_bytes)
        self.remove([one.key for one in gone])
        return gone

    def problem(self) -> str | None:
        """See :class:`tvmake.cache.store.Store`."""
        try:
            probe = self._path(f"{TEMPORARY_PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
            self._asked(self._system.pipe_file, probe, b"")
            self._asked(self._system.rm_file, probe)
        except CacheTroubleError as error:
            return str(error)
        return None

    def _path(self, *parts: str) -> str:
        return "/".join([self._root, *parts])

    def _put(self, file: str, path: str) -> None:
        self._system.put_file(file, path)

    def _put_and_rename(self, file: str, path: str) -> None:
        parent, _, last = path.rpartition("/")
        temporary = f"{parent}/{TEMPORARY_PREFIX}{os.getpid()}-{os.urandom(4).hex()}-{last}"
        self._system.makedirs(parent, exist_ok=True)
        self._system.put_file(file, temporary)
        self._system.mv(temporary, path)

    def _listed(self, directory: str) -> list[Stored]:
        def find() -> dict[str, Any]:
            self._system.invalidate_cache()
            try:
                return self._system.find(self._path(directory), detail=True)
            except FileNotFoundError:
                return {}

        found = self._asked(find) or {}
        return [Stored(name.rpartition("/")[2], int(info["size"] or 0), _changed(info)) for name, info in found.items()]

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            self._asked(self._system.rm_file, path, absent_ok=True)

    def _asked(self, work: Callable[..., Answer], *arguments: Any, absent_ok: bool = False) -> Answer | None:
        try:
            return work(*arguments)
        except Exception as error:  # each of fsspec's backends has exceptions of its own
            if absent_ok and isinstance(error, FileNotFoundError):
                return None
            raise self._unreachable(error) from error

    def _unreachable(self, error: BaseException) -> CacheTroubleError:
        return CacheTroubleError(f"cannot be reached ({said(error)})")


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
