"""The names of states in ``state: {INPUT: OUTPUT}``, without TVM."""

import re
from collections.abc import Iterable, Mapping, Sequence

NUMBER = "%d"
"""The part of a name that matches a number."""


def name_pattern(name: str) -> re.Pattern[str]:
    """The pattern of a name, with a group for each number."""
    return re.compile(r"(\d+)".join(map(re.escape, name.split(NUMBER))))


def is_named(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is a name."""
    return any(name_pattern(pattern).fullmatch(name) for pattern in patterns)


def kept_in_place(state: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """The inputs that are states because the network writes to them: those that ``state`` maps to themselves."""
    patterns = [name_pattern(given) for given, kept in state.items() if given == kept]
    return [name for name in names if any(pattern.fullmatch(name) for pattern in patterns)]


def insert_numbers(pattern: str, numbers: Sequence[str]) -> str:
    """The name that a pattern has with these numbers, one for each ``%d``."""
    first, *rest = pattern.split(NUMBER)
    return first + "".join(number + part for number, part in zip(numbers, rest, strict=True))
