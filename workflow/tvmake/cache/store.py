"""What a place for cache entries has to do."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol

ENTRIES, QUARANTINE = "entries", "quarantine"

QUARANTINED = 8
"""Bad entries to keep for whoever wants to know; older ones are deleted."""


@dataclass(frozen=True)
class Stored:
    """An entry as the place knows it."""

    key: str
    size: int
    used_at: float
    """When it was last taken or stored, in seconds since 1970."""


class Store(Protocol):
    """Entries by key. Every method but ``place`` raises CacheTroubleError where the place fails."""

    place: str

    def open(self, key: str) -> AbstractContextManager[tuple[BinaryIO, int] | None]:
        """An entry's file and size; None where there is none."""
        ...

    def put(self, key: str, size: int, write: Callable[[BinaryIO], None]) -> None:
        """Store an entry, complete or not at all, after making room for it."""
        ...

    def note_use(self, key: str) -> None:
        """Remember that an entry was used now; where that is not allowed, nothing happens."""
        ...

    def quarantine(self, key: str) -> None:
        """Put an entry aside so that it is never found again."""
        ...

    def entries(self) -> list[Stored]:
        """Every entry."""
        ...

    def remove(self, keys: list[str]) -> None:
        """Delete entries; those that are gone already are no error."""
        ...

    def quarantined(self) -> list[Stored]:
        """What was put aside; the names are longer than keys."""
        ...

    def forget_quarantined(self, names: list[str]) -> None:
        """Delete what was put aside."""
        ...

    def shrink(self, limit_bytes: int) -> list[Stored]:
        """Remove what was unused for longest until the rest fits; what was removed."""
        ...

    def problem(self) -> str | None:
        """Why nothing can be stored here, in one line; None where something can."""
        ...


def least_recently_used(entries: list[Stored], to_free: int) -> list[Stored]:
    """The entries to remove so that ``to_free`` bytes become free, those unused for longest first."""
    gone: list[Stored] = []
    for entry in sorted(entries, key=lambda entry: (entry.used_at, entry.key)):
        if to_free <= 0:
            break
        gone.append(entry)
        to_free -= entry.size
    return gone
