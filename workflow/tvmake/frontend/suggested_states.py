"""Inputs and outputs whose names say that they are a state and its next value."""

import re
from collections.abc import Iterator

from tvmake.artifact.signature import Signature
from tvmake.artifact.state_names import NUMBER

SUFFIXES = ("N", "n", "_n", "_next", "_new", "_out", "_o", "Out")
"""Endings of the next value's name."""

PREFIXES = ("next_", "new_", "out_", "output_")
"""Beginnings of the next value's name."""

REPLACED = (
    ("past_key_values", "present"), ("past", "present"), ("_in", "_out"), ("in_", "out_"), ("input_", "output_"),
    ("prev_", "next_"), ("prev_", ""), ("prev", "next"), ("h0", "hn"), ("c0", "cn"),
)  # fmt: skip
"""Parts of the state's name, and what the next value's has in their place. The first is that of optimum's decoders."""


def suggest_states(signature: Signature) -> dict[str, str]:
    """The states that the names suggest, with ``%d`` for numbers where all layers have them; empty if all outputs would be states.

    Types and numbers of axes fit; sizes are not compared, because exporters leave those of outputs out.
    """
    outputs = {spec.name: spec for spec in signature.outputs}
    found: dict[str, str] = {}
    for spec in signature.inputs:
        for name in next_names(spec.name):
            other = outputs.get(name)
            if (
                other
                and name not in found.values()
                and other.dtype == spec.dtype
                and len(other.shape) == len(spec.shape)
            ):
                found[spec.name] = name
                break
    if len(found) == len(outputs):
        return {}
    return join_numbers(found)


def next_names(name: str) -> Iterator[str]:
    """The names that a state's next value may have."""
    yield from (name + suffix for suffix in SUFFIXES)
    yield from (prefix + name for prefix in PREFIXES)
    yield from (name.replace(part, other) for part, other in REPLACED if part in name)


def join_numbers(found: dict[str, str]) -> dict[str, str]:
    """Pairs that differ only in a number as one pair with ``%d``."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for given, returned in found.items():
        numbers = re.findall(r"\d+", given)
        has_same = len(numbers) == 1 and re.findall(r"\d+", returned) == numbers
        pattern = (re.sub(r"\d+", NUMBER, given), re.sub(r"\d+", NUMBER, returned)) if has_same else (given, returned)
        groups.setdefault(pattern, []).append((given, returned))
    return dict(pattern if len(pairs) > 1 else pairs[0] for pattern, pairs in groups.items())
