"""``cache:`` — a store that shares reproducible results between checkouts and people."""

import json
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from tvmake.config.base import Directory, LocalPath
from tvmake.options import Strict

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
"""Bytes of decimal (``GB``) and binary (``GiB``) units."""

DIRECTORY_BYTES = 10 * 10**9
"""Default size limit of a cache directory."""

UNLIMITED = "unlimited"

SIZE = r"^\s*(\d+(?:\.\d+)?)\s*([kKMGT]i?|)B?\s*$"


def _size_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _is_size(text: str) -> str:
    size_bytes(text)
    return text


Size = Annotated[
    str,
    BeforeValidator(_size_text),
    AfterValidator(_is_size),
    WithJsonSchema({"type": ["string", "integer"]}, mode="validation"),
]


class CacheConfig(Strict):
    """The cache of import, transform, extract, build and export. A string instead of a mapping sets ``where``; ``true``
    selects the user's cache directory. The environment variable ``TVMAKE_CACHE`` overrides this key."""

    where: Directory | None = None
    """A directory, or a URL that fsspec understands (``s3://bucket/path``); by default the user's cache directory
    (``$TVMAKE_HOME/cache``)."""
    read_only: bool = False
    """Read results, but add none."""
    size_limit: Size | None = None
    """Size limit (``10 GB``, ``500 MiB``, ``unlimited``); beyond it the least recently used entries are removed. By default
    10 GB for a directory and no limit for a URL."""
    secret_file: LocalPath | None = None
    """A file with a secret that all users of the cache share. Entries that are sealed with another secret or not sealed
    are not used."""

    @property
    def is_remote(self) -> bool:
        """Whether the cache is at a URL."""
        return self.where is not None and "://" in self.where and not self.where.startswith("file://")

    @property
    def limit_bytes(self) -> int | None:
        """Size limit in bytes; None for no limit."""
        if self.size_limit is None:
            return None if self.is_remote else DIRECTORY_BYTES
        return size_bytes(self.size_limit)


def size_bytes(text: str) -> int | None:
    """Return ``10 GB`` in bytes; None for ``unlimited``.

    Raises:
        ValueError: the text is not a size.
    """
    if text == UNLIMITED:
        return None
    match = re.fullmatch(SIZE, text)
    if match is None:
        raise ValueError(f"expected a size such as 10 GB, 500 MiB or {UNLIMITED} (got '{text}')")
    return int(float(match[1]) * UNITS[match[2].upper()])


def cache_from(value: Any) -> Any:
    """Expand the short forms of ``cache:``: a string, ``true`` or ``false``."""
    if isinstance(value, bool):
        return {} if value else None
    return {"where": value} if isinstance(value, str) else value


Cache = Annotated[CacheConfig | None, BeforeValidator(cache_from)]


def as_text(config: CacheConfig | None) -> str:
    """Format the config for the environment variable."""
    return "off" if config is None else json.dumps(config.model_dump(mode="json", exclude_defaults=True))


def from_text(text: str) -> CacheConfig | None:
    """Parse the environment variable: ``off``, ``on``, a directory or URL, or the mapping as JSON.

    Raises:
        ValueError: none of these (also as pydantic's ValidationError).
    """
    value = text.strip()
    switches: dict[str, Literal[True] | None] = {"": None, "off": None, "0": None, "on": True, "1": True}
    if value.lower() in switches:
        return CacheConfig() if switches[value.lower()] else None
    if value.startswith("{"):
        return CacheConfig.model_validate_json(value)
    return CacheConfig(where=value)
