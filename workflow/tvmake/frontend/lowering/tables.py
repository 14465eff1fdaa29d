"""Tables from operators to what converts them, merged from the rooms that define the converters."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def merge_tables(*tables: Mapping[Key, Value]) -> dict[Key, Value]:
    """One table of several.

    Raises:
        ValueError: two tables have the same key, so that one converter would silently hide another.
    """
    merged: dict[Key, Value] = {}
    for table in tables:
        if duplicates := sorted(map(str, merged.keys() & table.keys())):
            raise ValueError(f"two tables have {', '.join(duplicates)}")
        merged.update(table)
    return merged
