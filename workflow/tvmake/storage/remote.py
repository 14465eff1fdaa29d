"""A directory behind a URL of fsspec: opening it, writing whole files, and its failures in one line."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tvmake.errors import InputError, MachineError, TvmakeError
from tvmake.storage.files import TEMPORARY_PREFIX

OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"}
"""Stores in which an object appears complete or not at all; elsewhere, writes go to another name first."""

PACKAGES = {"s3": "'tvmake[s3]'", "s3a": "'tvmake[s3]'", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
"""Packages to install, for protocols that fsspec does not include."""

Result = TypeVar("Result")


class RemoteRoot:
    """A directory behind a URL.

    Args:
        where: the name in errors.
        unreachable: converts a backend's exception into the one to raise.
        options: options of the backend.

    Raises:
        InputError: fsspec does not know the URL's protocol.
        MachineError: the package for this protocol is not installed.
    """

    def __init__(
        self,
        url: str,
        where: str,
        unreachable: Callable[[BaseException], Exception],
        options: Mapping[str, Any] | None = None,
    ):
        from fsspec.core import url_to_fs  # takes half a second to import

        protocol = url.partition("://")[0]
        self._unreachable = unreachable
        try:
            self.system, root = url_to_fs(url, **(options or {}))
        except ImportError as error:
            package = PACKAGES.get(protocol) or _missing_package(error)
            raise MachineError(where, f"a package for {protocol}:// is missing", f"pip install {package}") from error
        except ValueError as error:
            raise InputError(
                where, "is not an address that fsspec knows", "use a directory, s3://bucket/path …"
            ) from error
        except Exception as error:  # fsspec's backends have their own exceptions
            raise unreachable(error) from error
        self.root: str = root.rstrip("/")
        self.is_object_store = protocol in OBJECT_STORES

    def path(self, *parts: str) -> str:
        """A path below the root, as the backend writes it."""
        return "/".join([self.root, *parts])

    def call(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function of the backend; its exceptions become those of ``unreachable``."""
        try:
            return work(*arguments)
        except TvmakeError:
            raise
        except Exception as error:  # fsspec's backends have their own exceptions
            raise self._unreachable(error) from error

    def write(self, path: str, put: Callable[[str], None]) -> None:
        """Write a file with ``put`` so that readers see it complete or not at all."""
        if self.is_object_store:
            self.call(put, path)
        else:
            self.call(self._write_and_rename, path, put)

    def temporary(self, path: str) -> str:
        """An unused name beside ``path``."""
        parent, _, last = path.rpartition("/")
        return f"{parent}/{TEMPORARY_PREFIX}{os.getpid()}-{os.urandom(4).hex()}-{last}"

    def _write_and_rename(self, path: str, put: Callable[[str], None]) -> None:
        temporary = self.temporary(path)
        self.system.makedirs(path.rpartition("/")[0], exist_ok=True)
        put(temporary)
        self.system.mv(temporary, path)


def first_line(error: BaseException) -> str:
    """An exception in one line, without the long queries of addresses."""
    text = re.sub(r"\?[^\s\"']*", "", (str(error).splitlines() or [""])[0])[:200]
    return f"{type(error).__name__}{': ' if text else ''}{text}"


def _missing_package(error: ImportError) -> str:
    cause = error.__cause__ or error.__context__
    return cause.name if isinstance(cause, ModuleNotFoundError) and cause.name else "'fsspec[full]'"
