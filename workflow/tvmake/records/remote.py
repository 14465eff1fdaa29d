"""A directory that several machines reach: on a network file system, or through fsspec in an object store.

Only what a shared store needs: list, read, and write whole files that nobody changes later.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tvmake.artifact.files import TEMPORARY_PREFIX, write_bytes
from tvmake.errors import InputError, MachineError, TvmakeError
from tvmake.records.disk import reading, saving

OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"}
"""Where an object appears complete or not at all; elsewhere it is written under another name first."""

PACKAGES = {"s3": "'tvmake[s3]'", "s3a": "'tvmake[s3]'", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
"""What to install where it is not part of fsspec."""

FETCHED_AT_ONCE = 16

ATTEMPTS = 3
"""Listings of a directory while others rename files in it."""

Answer = TypeVar("Answer")


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
        from fsspec.core import url_to_fs

        self.url = url
        protocol = url.partition("://")[0]
        try:
            self._system, root = url_to_fs(url)
        except ImportError as error:
            package = PACKAGES.get(protocol) or _needed(error)
            raise MachineError(url, f"a package for {protocol}:// is missing", f"pip install {package}") from error
        except ValueError as error:
            raise InputError(url, "is no address that fsspec knows", "use a directory, s3://bucket/path …") from error
        except Exception as error:  # each of fsspec's backends has exceptions of its own
            raise self._unreachable(error) from error
        self._root = root.rstrip("/")
        self._is_object_store = protocol in OBJECT_STORES

    def files(self, below: str) -> dict[str, int]:
        path = f"{self._root}/{below}"
        found = self._asked(lambda: self._objects(path) if self._is_object_store else self._walked(path))
        return {name[len(self._root) + 1 :]: int(entry["size"] or 0) for name, entry in found.items()}

    def read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
        for start in range(0, len(names), FETCHED_AT_ONCE):
            some = names[start : start + FETCHED_AT_ONCE]
            answers = self._asked(self._fetched, [f"{self._root}/{name}" for name in some])
            for name in some:
                answer = answers[f"{self._root}/{name}"]
                if isinstance(answer, BaseException) and not isinstance(answer, FileNotFoundError):
                    raise self._unreachable(answer) from answer
                yield name, answer if isinstance(answer, bytes) else None

    def write(self, name: str, data: bytes) -> None:
        path = f"{self._root}/{name}"
        self._asked(self._system.pipe_file if self._is_object_store else self._write_and_rename, path, data)

    def _objects(self, path: str) -> dict[str, Any]:
        self._system.invalidate_cache()
        try:
            found = self._system.find(path, detail=True)
        except FileNotFoundError:
            found = {}
        bucket = self._root.split("/")[0]
        if not found and bucket and not self._system.exists(bucket):
            raise MachineError(self.url, f"there is no bucket {bucket!r}", "make it, or correct the address")
        return found

    def _walked(self, path: str) -> dict[str, Any]:
        for attempt in range(ATTEMPTS):
            self._system.invalidate_cache()
            try:
                # By default a walk leaves out what it cannot read.
                return self._system.find(path, detail=True, on_error="raise")
            except FileNotFoundError:
                if not self._system.exists(path):
                    return {}
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _fetched(self, paths: list[str]) -> dict[str, Any]:
        answers = self._system.cat(paths, on_error="return")
        # A single path is answered without its name by some backends.
        return answers if isinstance(answers, dict) else {paths[0]: answers}

    def _write_and_rename(self, path: str, data: bytes) -> None:
        parent, _, last = path.rpartition("/")
        temporary = f"{parent}/{TEMPORARY_PREFIX}{os.getpid()}-{os.urandom(4).hex()}-{last}"
        self._system.makedirs(parent, exist_ok=True)
        self._system.pipe_file(temporary, data)
        self._system.mv(temporary, path)

    def _asked(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        try:
            return work(*arguments)
        except TvmakeError:
            raise
        except Exception as error:  # each of fsspec's backends has exceptions of its own
            raise self._unreachable(error) from error

    def _unreachable(self, error: BaseException) -> MachineError:
        # Addresses in the backends' messages carry long queries.
        said = re.sub(r"\?[^\s\"']*", "", (str(error).splitlines() or [""])[0])[:200]
        return MachineError(
            self.url,
            f"the shared store cannot be reached ({type(error).__name__}{': ' if said else ''}{said})",
            "check address, network and credentials; without `tuning.shared`, this machine's store alone is used",
        )


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _needed(error: ImportError) -> str:
    cause = error.__cause__ or error.__context__
    return cause.name if isinstance(cause, ModuleNotFoundError) and cause.name else "'fsspec[full]'"
