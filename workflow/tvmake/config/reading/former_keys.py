"""Keys renamed since earlier versions, which are still read."""

from collections.abc import Iterator, Mapping
from typing import Any

KeyPath = tuple[str, ...]

FORMER_KEYS: dict[KeyPath, str] = {
    ("tuning", "passes"): "rounds",
    ("targets", "*", "tuning", "passes"): "rounds",
}
"""Former keys (``*`` matches any name) and the present name of their last part."""


def former_keys(values: Mapping[str, Any]) -> dict[KeyPath, KeyPath]:
    """Return the former keys in ``values``, each with its present path."""
    return {
        path: (*path[:-1], present) for pattern, present in FORMER_KEYS.items() for path in _matching(values, pattern)
    }


def rename_key(values: Mapping[str, Any], former: KeyPath, present: str) -> dict[str, Any]:
    """Return a copy of ``values`` with the last part of the path ``former`` renamed to ``present``.

    A null value is dropped if ``present`` exists.
    """
    key, *below = former
    if below:
        return {**values, key: rename_key(values[key], former[1:], present)}
    others = {name: value for name, value in values.items() if name not in (key, present)}
    return {**others, present: values.get(present) if values[key] is None else values[key]}


def value_at(values: Any, path: KeyPath) -> Any:
    """Return the value at a path; None if there is none."""
    for key in path:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def _matching(values: Any, pattern: KeyPath) -> Iterator[KeyPath]:
    if not pattern:
        yield ()
    elif isinstance(values, Mapping):
        for key in values:
            if isinstance(key, str) and pattern[0] in (key, "*"):
                yield from ((key, *below) for below in _matching(values[key], pattern[1:]))
