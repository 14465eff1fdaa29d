"""The interface of a store for cache entries."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol

ENTRIES = "entries"
"""The directory of the entries."""


@dataclass(frozen=True)
class Stored:
    """An entry in the store."""

    key: str
    size: int
    used_at: float
    """The time of its last use, in seconds since 1970."""


class Store(Protocol):
    """Entries by key. Every method may raise CacheTroubleError."""

    location: str

    def open(self, key: str) -> AbstractContextManager[tuple[BinaryIO, int] | None]:
        """An entry's file and size; None if it is missing."""
        ...

    def put(self, key: str, size: int, write: Callable[[BinaryIO], None]) -> None:
        """Store an entry, complete or not at all, after making room for it."""
        ...

    def note_use(self, key: str) -> None:
        """Record the use of an entry; no effect without write access."""
        ...

    def entries(self) -> list[Stored]:
        """Every entry."""
        ...

    def remove(self, keys: list[str]) -> None:
        """Delete entries; missing ones are ignored."""
        ...

    def shrink(self, limit_bytes: int) -> list[Stored]:
        """Remove the least recently used entries until the rest fits; returns the removed ones."""
        ...

    def problem(self) -> str | None:
        """Why entries cannot be stored, in one line; None if they can."""
        ...


def least_recently_used(entries: list[Stored], to_free: int) -> list[Stored]:
    """The least recently used entries whose removal frees ``to_free`` bytes."""
    gone: list[Stored] = []
    for entry in sorted(entries, key=lambda entry: (entry.used_at, entry.key)):
        if to_free <= 0:
            break
        gone.append(entry)
        to_free -= entry.size
    return gone
