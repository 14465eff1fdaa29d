"""Two values of a key in one line of a terminal: whole where they are short, else what differs between them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

LINE = 100
"""Characters that a key and both of its values may take together."""

VALUE = 36
"""Characters of a longer value that are shown."""

BEFORE = 8
"""Characters of it before the first that differs."""

ITEMS = 2
"""So many items of a list are named."""

AXES = ("model", "precision", "target")
"""The keys that name a variant."""

NOTHING = "not there"


def format_change(what: str, before: str | None, after: str | None) -> str:
    """A key with its values before and after; of long lists the items that differ, of other long values a part."""
    whole = f"{what}: {before or NOTHING} → {after or NOTHING}"
    if len(whole) <= LINE:
        return whole
    old, new = _list_of(before), _list_of(after)
    if old is not None and new is not None:
        return f"{what}: {_of_items(old, new)}"
    pairs = enumerate(zip(before or "", after or "", strict=False))
    start = next((place for place, (one, other) in pairs if one != other), 0)
    return f"{what}: {_part(before, start)} → {_part(after, start)}"


def _list_of(text: str | None) -> list[Any] | None:
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    return value if isinstance(value, list) else None


def _of_items(old: Sequence[Any], new: Sequence[Any]) -> str:
    before, after = ({_name(item): item for item in items} for items in (old, new))
    gone = [name for name in before if name not in after]
    come = [name for name in after if name not in before]
    other = [
        f"{name} ({_keys(before[name], after[name])})" for name in after if before.get(name, after[name]) != after[name]
    ]
    found = [
        f"{word} {_listed(names)}" for word, names in (("without", gone), ("with", come), ("other", other)) if names
    ]
    return ", ".join(found) or "in another order"


def _name(item: Any) -> str:
    """What a reader calls an item by."""
    if isinstance(item, dict):
        words = [str(item[axis]) for axis in AXES if axis in item]
        words = words or [value for value in item.values() if isinstance(value, str)][:1]
        if words:
            return "/".join(words)
    return _part(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False), 0)


def _keys(old: Any, new: Any) -> str:
    """The keys in which two items of one name differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return _listed([key for key in {**old, **new} if old.get(key) != new.get(key)])
    return "its value"


def _listed(names: Sequence[str]) -> str:
    more = [f"{len(names) - ITEMS} more"] if len(names) > ITEMS else []
    return ", ".join([*names[:ITEMS], *more])


def _part(text: str | None, start: int) -> str:
    """A text, or as much of it as is shown, from a little before a place on."""
    if not text or len(text) <= VALUE:
        return text or NOTHING
    begin = max(0, min(start - BEFORE, len(text) - VALUE))
    part = text[begin : begin + VALUE]
    return f"{'…' if begin else ''}{part}{'…' if begin + VALUE < len(text) else ''}"
