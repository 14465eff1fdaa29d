"""A directory that several machines share: on a network file system, or through fsspec in an object store.

It has the operations of a shared store: list, read, and write whole files, which never change afterwards.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from tvmake.errors import MachineError
from tvmake.storage.disk import reading, saving
from tvmake.storage.files import write_bytes
from tvmake.storage.remote import RemoteRoot, first_line

FETCHED_AT_ONCE = 16

ATTEMPTS = 3
"""Number of tries to list a directory while others rename files in it."""


class Directory(Protocol):
    """A directory that need not exist before the first write. Names are relative to it, with slashes."""

    def files(self, below: str) -> dict[str, int]:
        """The files below a path, with their sizes in bytes."""
        ...

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
        """The contents of files; None for a deleted one."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write a file that readers see complete or not at all."""
        ...


def open_directory(url: str) -> Directory:
    """The directory at a path or URL.

    Raises:
        InputError: fsspec does not know the URL's protocol.
        MachineError: the package for this protocol is not installed, or the directory cannot be reached. The directory's
            methods raise this too.
    """
    if "://" not in url or url.startswith("file://"):
        return FileSystemDirectory(Path(url.removeprefix("file://")).expanduser())
    return RemoteDirectory(url)


class FileSystemDirectory:
    """A directory of this machine's file systems, including network file systems."""

    def __init__(self, root: Path):
        self.root = root

    def files(self, below: str) -> dict[str, int]:
        sizes = {}
        with reading(self.root):
            for directory, _, names in os.walk(self.root / below, onerror=_raise_unless_missing):
                for name in names:
                    path = Path(directory) / name
                    try:
                        sizes[path.relative_to(self.root).as_posix()] = path.stat().st_size
                    except FileNotFoundError:
                        continue  # a temporary file that was renamed meanwhile
        return sizes

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
        for name in names:
            try:
                with reading(self.root / name):
                    yield name, (self.root / name).read_bytes()
            except FileNotFoundError:
                yield name, None

    def write(self, name: str, data: bytes) -> None:
        with saving(self.root / name):
            write_bytes(self.root / name, data)


class RemoteDirectory:
    """A directory behind a URL that fsspec knows."""

    def __init__(self, url: str):
        self.url = url
        self._root = RemoteRoot(url, url, self._unreachable)

    def files(self, below: str) -> dict[str, int]:
        path = self._root.path(below)
        entries = self._root.call(self._objects if self._root.is_object_store else self._walk, path)
        return {name[len(self._root.root) + 1 :]: int(entry["size"] or 0) for name, entry in entries.items()}

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
        for start in range(0, len(names), FETCHED_AT_ONCE):
            batch = names[start : start + FETCHED_AT_ONCE]
            contents = self._root.call(self._fetch, [self._root.path(name) for name in batch])
            for name in batch:
                content = contents[self._root.path(name)]
                if isinstance(content, BaseException) and not isinstance(content, FileNotFoundError):
                    raise self._unreachable(content) from content
                yield name, content if isinstance(content, bytes) else None

    def write(self, name: str, data: bytes) -> None:
        self._root.write(self._root.path(name), lambda path: self._root.system.pipe_file(path, data))

    def _objects(self, path: str) -> dict[str, Any]:
        system = self._root.system
        system.invalidate_cache()
        try:
            entries: dict[str, Any] = system.find(path, detail=True)
        except FileNotFoundError:
            entries = {}
        bucket = self._root.root.split("/")[0]
        if not entries and bucket and not system.exists(bucket):
            raise MachineError(self.url, f"there is no bucket {bucket!r}", "create it, or correct the address")
        return entries

    def _walk(self, path: str) -> dict[str, Any]:
        system = self._root.system
        for attempt in range(ATTEMPTS):
            system.invalidate_cache()
            try:
                # By default, find() skips directories that it cannot read.
                entries: dict[str, Any] = system.find(path, detail=True, on_error="raise")
                return entries
            except FileNotFoundError:
                if not system.exists(path):
                    return {}
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _fetch(self, paths: list[str]) -> dict[str, Any]:
        contents = self._root.system.cat(paths, on_error="return")
        # Some backends return a single path's content without its name.
        return contents if isinstance(contents, dict) else {paths[0]: contents}

    def _unreachable(self, error: BaseException) -> MachineError:
        return MachineError(
            self.url,
            f"the shared store cannot be reached ({first_line(error)})",
            "check address, network and credentials; without `tuning.shared`, this machine's store alone is used",
        )


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
