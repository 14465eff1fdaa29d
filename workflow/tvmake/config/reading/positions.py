"""Position of a config key: file and line, or the option that set it."""

from collections.abc import Mapping
from typing import NamedTuple

from tvmake.process.output import printable

KeyPath = tuple[str, ...]


class Position(NamedTuple):
    """Position of a key."""

    file: str
    line: int
    """From 1; 0 outside files."""
    written: str = ""
    """The value's text if it is a scalar."""


NO_FILE = "config"
"""Reported instead of a file for mistakes outside files."""

SET = "--set"
"""The option that overrides keys."""


def where_is(path: KeyPath, positions: Mapping[KeyPath, Position], default_file: str) -> str:
    """Return file and line of a key, or the option that set it; without a position, those of the nearest key above."""
    # A key above those of --set has no position.
    options_below = (
        position for key, position in positions.items() if not position.line and path and key[: len(path)] == path
    )
    above = (positions.get(path[:length]) for length in range(len(path) - 1, 0, -1))
    for position in (positions.get(path), next(options_below, None), *above):
        if position:
            return f"{position.file}:{position.line}" if position.line else position.file
    return default_file


def key_path(key: str) -> KeyPath:
    """Split a key in the format of :func:`format_path`."""
    return tuple(key.replace("[", ".").replace("]", "").split("."))


def format_path(path: KeyPath) -> str:
    """Format a path as ``targets.adreno.tag`` or ``variants.exclude[0]``."""
    text = ""
    for part in path:
        name = printable(part)
        text += f"[{name}]" if part.isdigit() else f".{name}" if text else name
    return text or "config"


def option_of(key: str, options: Mapping[str, str]) -> str | None:
    """Return the option that set a key or one above it; None if no option did.

    Args:
        key: in the format of :func:`format_path`.
        options: the options, by keys in this format.
    """
    above = [name for name in options if f"{key}.".startswith((f"{name}.", f"{name}["))]
    return options[max(above, key=len)] if above else None
