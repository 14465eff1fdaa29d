"""How a package computes sizes for which it has no code of its own."""

from collections.abc import Iterator
from dataclasses import dataclass

from tvmake.artifact.extents import describe_bounds
from tvmake.artifact.manifest import Manifest, PackageFunction


@dataclass(frozen=True)
class OtherSizes:
    """A range of sizes that are computed alike."""

    range: str
    """``batch 5 to 7``."""
    how: str
    """``padded to 8``."""
    smallest: dict[str, int]
    """The smallest of these sizes, by dimension."""


def other_sizes(manifest: Manifest) -> list[OtherSizes]:
    """The sizes that functions for other sizes compute; none if the package has dynamic code."""
    ranges = [entry for function in manifest.functions for entry in _ranges(manifest, function)]
    return sorted(ranges, key=lambda entry: list(reversed(entry.smallest.values())))


def _ranges(manifest: Manifest, function: PackageFunction) -> Iterator[OtherSizes]:
    rows = function.rows
    if rows is None:
        return
    name, size = rows.dimension, function.sizes[rows.dimension]
    least, most = manifest.signature.bounds.get(name, (1, None))
    others = {other: number for other, number in function.sizes.items() if other != name}
    prefix = "".join(f"{other}={number}, " for other, number in others.items())
    repeated = f"{size} at a time" + (", and the rest as a smaller size" if size > 1 else "")
    for start, end, how in (
        (rows.least, size - 1, f"padded to {size}"),
        (size + 1, rows.most, repeated),
    ):
        first, last = max(start, least), _smaller(end, most)
        if last is None or first <= last:
            yield OtherSizes(f"{prefix}{name} {describe_bounds((first, last))}", how, {name: first, **others})


def _smaller(size: int | None, other: int | None) -> int | None:
    return size if other is None else other if size is None else min(size, other)
