"""Look through a whole cache: what there is, and whether it is as it was stored."""

from collections.abc import Iterator
from dataclasses import dataclass

from tvmake.cache.entry import Header, check, read_header
from tvmake.cache.store import Store, Stored
from tvmake.cache.trouble import BadEntryError


@dataclass(frozen=True)
class Looked:
    """An entry and what became of reading it."""

    stored: Stored
    header: Header | None
    """None for a bad one."""
    problem: str | None = None
    """Why it would not be used."""


def look(store: Store, secret: bytes | None, thoroughly: bool) -> Iterator[Looked]:
    """Read every entry's header, or every byte.

    Raises:
        CacheTroubleError: the cache cannot be read.
    """
    for stored in sorted(store.entries(), key=lambda one: one.key):
        with store.open(stored.key) as opened:
            if opened is None:
                continue  # removed meanwhile
            file, size = opened
            try:
                header = read_header(file, size, stored.key, secret)
                if thoroughly:
                    check(header, file)
            except BadEntryError as error:
                yield Looked(stored, None, str(error))
                continue
        yield Looked(stored, header)
