"""``cache:`` — where results that depend on nothing but their inputs are kept for other checkouts and people."""

import json
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from tvmake.config.base import Directory, LocalPath
from tvmake.options import Strict

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
"""Decimal ones as disks are sold, and binary ones (``GiB``)."""

DIRECTORY_BYTES = 10 * 10**9
"""How large a directory may grow unless the config says otherwise."""

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
    """The cache in front of import, transform, extract, build and export. A text instead of a mapping is ``where``;
    ``true`` is the user's cache directory. The environment variable ``TVMAKE_CACHE`` overrides all of it."""

    where: Directory | None = None
    """A directory, or a URL that fsspec understands (``s3://bucket/path``); by default the user's cache directory
    (``$TVMAKE_HOME/cache``)."""
    read_only: bool = False
    """Take results from it, add none."""
    size_limit: Size | None = None
    """How large it may grow (``10 GB``, ``500 MiB``, ``unlimited``) before what was unused for longest is removed; 10 GB
    for a directory and no limit for a URL when left out."""
    secret_file: LocalPath | None = None
    """A file with a secret that all who share the cache have: entries sealed with another one, or with none, are not
    used."""

    @property
    def is_remote(self) -> bool:
        """Whether it lies behind a URL."""
        return self.where is not None and "://" in self.where and not self.where.startswith("file://")

    @property
    def limit_bytes(self) -> int | None:
        """How large it may grow, in bytes; None for no limit."""
        if self.size_limit is None:
            return None if self.is_remote else DIRECTORY_BYTES
        return size_bytes(self.size_limit)


def size_bytes(text: str) -> int | None:
    """``10 GB`` in bytes; None for ``unlimited``.

    Raises:
        ValueError: the text is no size.
    """
    if text == UNLIMITED:
        return None
    found = re.fullmatch(SIZE, text)
    if found is None:
        raise ValueError(f"expected a size such as 10 GB, 500 MiB or {UNLIMITED} (got '{text}')")
    return int(float(found[1]) * UNITS[found[2].upper()])


def cache_from(value: Any) -> Any:
    """What a config's ``cache:`` may be besides a mapping: a text, ``true`` or ``false``."""
    if isinstance(value, bool):
        return {} if value else None
    return {"where": value} if isinstance(value, str) else value


Cache = Annotated[CacheConfig | None, BeforeValidator(cache_from)]


def as_text(config: CacheConfig | None) -> str:
    """The config as the environment variable carries it."""
    return "off" if config is None else json.dumps(config.model_dump(mode="json", exclude_defaults=True))


def from_text(text: str) -> CacheConfig | None:
    """What the environment variable says: ``off``, ``on``, a directory or URL, or the mapping as JSON.

    Raises:
        ValueError: it is none of them (pydantic's ValidationError is one).
    """
    written = text.strip()
    switches: dict[str, Literal[True] | None] = {"": None, "off": None, "0": None, "on": True, "1": True}
    if written.lower() in switches:
        return CacheConfig() if switches[written.lower()] else None
    if written.startswith("{"):
        return CacheConfig.model_validate_json(written)
    return CacheConfig(where=written)
