"""Inspect and verify the contents of a whole cache."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvmake.cache.entry import Header, check, read_header
from tvmake.cache.errors import BadEntryError
from tvmake.cache.store import Store, Stored
from tvmake.config.cache import CacheConfig
from tvmake.errors import InputError


@dataclass(frozen=True)
class Inspected:
    """An entry and the result of reading it."""

    stored: Stored
    header: Header | None
    """None for a bad one."""
    problem: str | None = None
    """Why it would not be used."""


def inspect(store: Store, secret: bytes | None, thoroughly: bool) -> Iterator[Inspected]:
    """Read every entry's header, or every byte.

    Raises:
        CacheTroubleError: the cache cannot be read.
    """
    for stored in sorted(store.entries(), key=lambda stored: stored.key):
        with store.open(stored.key) as opened:
            if opened is None:
                continue  # removed meanwhile
            file, size = opened
            try:
                header = read_header(file, size, stored.key, secret)
                if thoroughly:
                    check(header, file)
            except BadEntryError as error:
                yield Inspected(stored, None, str(error))
                continue
        yield Inspected(stored, header)


def summarise(config: CacheConfig, store: Store, secret: bytes | None) -> dict[str, Any]:
    """Entries, bytes and run times by stage; and the unusable entries.

    Raises:
        CacheTroubleError: the cache cannot be read.
    """
    stages: dict[str, dict[str, Any]] = {}
    unusable = 0
    for entry in inspect(store, secret, thoroughly=False):
        if entry.header is None:
            unusable += 1
            continue
        stage = stages.setdefault(entry.header.stage, {"entries": 0, "bytes": 0, "run_s": 0.0})
        stage["entries"] += 1
        stage["bytes"] += entry.stored.size
        stage["run_s"] = round(stage["run_s"] + entry.header.run_s, 2)
    return {
        "cache": store.location,
        "read_only": config.read_only,
        "sealed": secret is not None,
        "size_limit_bytes": config.limit_bytes,
        "entries": sum(stage["entries"] for stage in stages.values()),
        "bytes": sum(stage["bytes"] for stage in stages.values()),
        "unusable": unusable,
        "stages": stages,
    }


def entry_details(store: Store, key: str, secret: bytes | None) -> dict[str, Any]:
    """The header of the entry whose key begins so.

    Raises:
        InputError: no key, or several, begin so; or the entry is bad.
        CacheTroubleError: the cache cannot be read.
    """
    keys = [stored.key for stored in store.entries() if stored.key.startswith(key)] if len(key) >= 8 else []
    if len(keys) != 1:
        raise InputError(
            f"cache: {store.location}",
            f"{'several keys begin' if keys else 'no key begins'} with '{key}'",
            "a step's log has its key; use 8 or more of its digits",
        )
    with store.open(keys[0]) as opened:
        if opened is None:
            raise InputError(f"cache: {store.location}", f"{keys[0]} was removed meanwhile")
        try:
            return read_header(*opened, keys[0], secret).model_dump(mode="json")
        except BadEntryError as error:
            raise InputError(f"cache: {store.location}", f"{keys[0]}: {error}", "`tvmake cache verify`") from None
