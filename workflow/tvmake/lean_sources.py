"""The workflow's own files, read without the library that Snakemake opens addresses on the web with.

It loads clients of web services to say that a path is a path: 5 to 8 % of what a small plan takes. It concerns ``tvmake make``
only.
"""

import os
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import snakemake.api  # noqa: F401  # its modules import each other, which works from this one on
from snakemake.sourcecache import LocalSourceFile, SourceCache

_place_in_cache, _open = LocalSourceFile.get_cache_path, SourceCache._open


def read_sources_leanly() -> None:
    """Have Snakemake read local files this way, in this process."""
    LocalSourceFile.get_cache_path = _place_of_a_path
    SourceCache._open = _open_path


def _place_of_a_path(self: Any) -> str:
    path = self.get_path_or_uri(secret_free=True)
    if not path.startswith("/"):
        return _place_in_cache(self)
    return os.path.join("file", unquote(path.lstrip("/")))  # noqa: PTH118  # as Snakemake does for addresses


def _open_path(self: Any, source_file: Any, mode: str, encoding: str | None = None) -> IO[Any]:
    if type(source_file) is LocalSourceFile:
        try:
            return Path(source_file.get_path_or_uri(secret_free=False)).open(
                mode, encoding=None if "b" in mode else encoding
            )
        except OSError:
            pass  # Snakemake meets it again, and says so in its own words
    return _open(self, source_file, mode, encoding)
