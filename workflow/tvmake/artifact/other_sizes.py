"""How a package computes sizes for which it has no code of its own, in words."""

from collections.abc import Iterator

from tvmake.artifact.extents import describe_bounds
from tvmake.artifact.manifest import Manifest, PackageFunction


def describe_other_sizes(manifest: Manifest) -> list[tuple[str, str]]:
    """Ranges of sizes with how they are computed: ``batch 5 to 7``, ``padded to 8``; none if the package has dynamic code."""
    listed = [entry for function in manifest.functions for entry in _ranges(manifest, function)]
    return [(sizes, how) for _, sizes, how in sorted(listed)]


def _ranges(manifest: Manifest, function: PackageFunction) -> Iterator[tuple[tuple[str, int], str, str]]:
    rows = function.rows
    if rows is None:
        return
    name, size = rows.dimension, function.sizes[rows.dimension]
    least, most = manifest.signature.bounds.get(name, (1, None))
    others = "".join(f"{other}={number}, " for other, number in function.sizes.items() if other != name)
    repeated = f"{size} at a time" + (", and the rest as a smaller size" if size > 1 else "")
    for bounds, how in (
        ((max(rows.least, least), _smaller(size - 1, most)), f"padded to {size}"),
        ((max(size + 1, least), _smaller(rows.most, most)), repeated),
    ):
        if bounds[1] is None or bounds[0] <= bounds[1]:
            yield (others, bounds[0]), f"{others}{name} {describe_bounds(bounds)}", how


def _smaller(size: int | None, other: int | None) -> int | None:
    sizes = [end for end in (size, other) if end is not None]
    return min(sizes) if sizes else None
