"""Where a key of the config stands: in which line of which file, or in which option."""

from collections.abc import Mapping
from typing import NamedTuple

from tvmake.config.reading.former_keys import KeyPath
from tvmake.process.output import printable


class Position(NamedTuple):
    """Where a key stands."""

    file: str
    line: int
    """From 1; 0 for what is in no file."""
    written: str = ""
    """Its value as it is written, where it is a single one."""


NO_FILE = "config"
"""Where a mistake is said to be that is in no file."""

SET = "--set"
"""The option that overrides keys."""


def where_is(path: KeyPath, positions: Mapping[KeyPath, Position], default_file: str) -> str:
    """File and line of a key, or the option that gave it; where it stands nowhere, those of the nearest key above."""
    # A key above those of --set is in no file.
    given_below = (one for below, one in positions.items() if not one.line and path and below[: len(path)] == path)
    above = (positions.get(path[:length]) for length in range(len(path) - 1, 0, -1))
    for position in (positions.get(path), next(given_below, None), *above):
        if position:
            return f"{position.file}:{position.line}" if position.line else position.file
    return default_file


def key_path(key: str) -> KeyPath:
    """The parts of a key as :func:`dotted` writes it."""
    return tuple(key.replace("[", ".").replace("]", "").split("."))


def dotted(path: KeyPath) -> str:
    """``targets.adreno.tag``, ``variants.exclude[0]``."""
    text = ""
    for part in path:
        name = printable(part)
        text += f"[{name}]" if part.isdigit() else f".{name}" if text else name
    return text or "config"


def given_by(key: str, options: Mapping[str, str]) -> str | None:
    """The option that gave a key or one above it; None where no option did.

    Args:
        key: as :func:`dotted` writes it.
        options: by such keys.
    """
    above = [name for name in options if f"{key}.".startswith((f"{name}.", f"{name}["))]
    return options[max(above, key=len)] if above else None
