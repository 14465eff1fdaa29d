"""Merge tables from operators to their converters."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def merge_tables(*tables: Mapping[Key, Value]) -> dict[Key, Value]:
    """Merge several tables into one.

    Raises:
        ValueError: two tables have the same key: one converter would silently hide the other.
    """
    merged: dict[Key, Value] = {}
    for table in tables:
        if duplicates := sorted(map(str, merged.keys() & table.keys())):
            raise ValueError(f"two tables have {', '.join(duplicates)}")
        merged.update(table)
    return merged
