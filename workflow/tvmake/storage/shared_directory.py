"""A directory that several machines reach: on a network file system, or through fsspec in an object store.

Only what a shared store needs: list, read, and write whole files that nobody changes later.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from tvmake.errors import MachineError
from tvmake.storage.disk import reading, saving
from tvmake.storage.files import write_bytes
from tvmake.storage.remote import RemotePlace, first_line

FETCHED_AT_ONCE = 16

ATTEMPTS = 3
"""Listings of a directory while others rename files in it."""


class Directory(Protocol):
    """A directory that need not exist before something is written. Names are relative to it, with slashes."""

    def files(self, below: str) -> dict[str, int]:
        """Every file below a path, and its size in bytes."""
        ...

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
        """The content of files; None for one that has gone."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Put a file where readers see it complete or not at all."""
        ...


def open_directory(url: str) -> Directory:
    """The directory at a path or URL.

    Raises:
        InputError: the URL is of an unknown kind.
        MachineError: the package for this kind of URL is not installed, or the place cannot be reached. The directory's
            methods raise this too.
    """
    if "://" not in url or url.startswith("file://"):
        return FileSystemDirectory(Path(url.removeprefix("file://")).expanduser())
    return RemoteDirectory(url)


class FileSystemDirectory:
    """A directory of this machine's file systems, network ones included."""

    def __init__(self, root: Path):
        self.root = root

    def files(self, below: str) -> dict[str, int]:
        found = {}
        with reading(self.root):
            for directory, _, names in os.walk(self.root / below, onerror=_raise_unless_missing):
                for name in names:
                    path = Path(directory) / name
                    try:
                        found[path.relative_to(self.root).as_posix()] = path.stat().st_size
                    except FileNotFoundError:
                        continue  # a temporary file that has its name now
        return found

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
    """A directory behind a URL that fsspec understands."""

    def __init__(self, url: str):
        self.url = url
        self.place = RemotePlace(url, url, self._unreachable)

    def files(self, below: str) -> dict[str, int]:
        path = self.place.path(below)
        found = self.place.call(self._objects if self.place.is_object_store else self._walked, path)
        return {name[len(self.place.root) + 1 :]: int(entry["size"] or 0) for name, entry in found.items()}

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
        for start in range(0, len(names), FETCHED_AT_ONCE):
            batch = names[start : start + FETCHED_AT_ONCE]
            contents = self.place.call(self._fetched, [self.place.path(name) for name in batch])
            for name in batch:
                content = contents[self.place.path(name)]
                if isinstance(content, BaseException) and not isinstance(content, FileNotFoundError):
                    raise self._unreachable(content) from content
                yield name, content if isinstance(content, bytes) else None

    def write(self, name: str, data: bytes) -> None:
        self.place.write(self.place.path(name), lambda path: self.place.system.pipe_file(path, data))

    def _objects(self, path: str) -> dict[str, Any]:
        system = self.place.system
        system.invalidate_cache()
        try:
            found: dict[str, Any] = system.find(path, detail=True)
        except FileNotFoundError:
            found = {}
        bucket = self.place.root.split("/")[0]
        if not found and bucket and not system.exists(bucket):
            raise MachineError(self.url, f"there is no bucket {bucket!r}", "make it, or correct the address")
        return found

    def _walked(self, path: str) -> dict[str, Any]:
        system = self.place.system
        for attempt in range(ATTEMPTS):
            system.invalidate_cache()
            try:
                # By default a walk leaves out what it cannot read.
                found: dict[str, Any] = system.find(path, detail=True, on_error="raise")
                return found
            except FileNotFoundError:
                if not system.exists(path):
                    return {}
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _fetched(self, paths: list[str]) -> dict[str, Any]:
        contents = self.place.system.cat(paths, on_error="return")
        # A single path is answered without its name by some backends.
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
