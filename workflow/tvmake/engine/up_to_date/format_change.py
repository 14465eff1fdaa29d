"""Format two values of a key in one terminal line: in full if short, else the part that differs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

LINE = 100
"""Maximum characters for a key with both values in full."""

VALUE = 36
"""Characters shown of a longer value."""

BEFORE = 8
"""Characters shown before the first difference."""

ITEMS = 2
"""Maximum number of list items that are named."""

AXES = ("model", "precision", "target")
"""The keys that name a variant."""

NOTHING = "not there"


def format_change(what: str, before: str | None, after: str | None) -> str:
    """A key with its values before and after: the items that differ of long lists, a part of other long values."""
    whole = f"{what}: {before or NOTHING} → {after or NOTHING}"
    if len(whole) <= LINE:
        return whole
    old, new = _list_of(before), _list_of(after)
    if old is not None and new is not None:
        return f"{what}: {_of_items(old, new)}"
    pairs = enumerate(zip(before or "", after or "", strict=False))
    start = next((index for index, (left, right) in pairs if left != right), 0)
    return f"{what}: {_part(before, start)} → {_part(after, start)}"


def _list_of(text: str | None) -> list[Any] | None:
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    return value if isinstance(value, list) else None


def _of_items(old: Sequence[Any], new: Sequence[Any]) -> str:
    before, after = ({_name(item): item for item in items} for items in (old, new))
    removed = [name for name in before if name not in after]
    added = [name for name in after if name not in before]
    changed = [
        f"{name} ({_keys(before[name], after[name])})" for name in after if before.get(name, after[name]) != after[name]
    ]
    differences = [
        f"{word} {_join_names(names)}"
        for word, names in (("without", removed), ("with", added), ("other", changed))
        if names
    ]
    return ", ".join(differences) or "in another order"


def _name(item: Any) -> str:
    """A readable name of an item."""
    if isinstance(item, dict):
        words = [str(item[axis]) for axis in AXES if axis in item]
        words = words or [value for value in item.values() if isinstance(value, str)][:1]
        if words:
            return "/".join(words)
    return _part(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False), 0)


def _keys(old: Any, new: Any) -> str:
    """The keys in which two items of the same name differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return _join_names([key for key in {**old, **new} if old.get(key) != new.get(key)])
    return "its value"


def _join_names(names: Sequence[str]) -> str:
    more = [f"{len(names) - ITEMS} more"] if len(names) > ITEMS else []
    return ", ".join([*names[:ITEMS], *more])


def _part(text: str | None, start: int) -> str:
    """A text, or the part of it that starts shortly before an index."""
    if not text or len(text) <= VALUE:
        return text or NOTHING
    begin = max(0, min(start - BEFORE, len(text) - VALUE))
    part = text[begin : begin + VALUE]
    return f"{'…' if begin else ''}{part}{'…' if begin + VALUE < len(text) else ''}"
