"""Dynamic dimensions in lines for a terminal, each with an option that fixes or bounds it."""

from collections.abc import Callable, Iterator, Mapping

from tvmake.artifact.extents import describe_bounds
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.signature import Bounds, Signature
from tvmake.config.documents.starter import StarterInput, dynamic_sizes, larger_size
from tvmake.process.output import argument, printable


def lines_of_package(signature: Signature) -> Iterator[str]:
    """Lines for a package's dynamic dimensions, with the options that change them."""

    def remedy(name: str, size: int, most: int | None) -> str:
        least, _ = signature.bounds.get(name, (1, None))
        bounds = f"{least}..{larger_size(size)}"
        fixed, bounded = f"--dim {argument(f'{name}={size}')}", f"--dim {argument(f'{name}={bounds}')}"
        return f"`{fixed}` fixes it" + ("" if most is not None else f", `{bounded}` bounds it")

    return _lines(signature, remedy)


def lines_of_shapes(manifest: Manifest) -> Iterator[str]:
    """Lines for the shapes for which a package has code of its own."""
    shapes = [", ".join(f"{name}={size}" for name, size in part.sizes.items()) for part in manifest.functions]
    if shapes:
        others = "other sizes take the dynamic code" if "" in shapes else "other sizes are refused"
        named = "; ".join(shape for shape in shapes if shape)
        yield printable(f"  code of their own have the shapes {named}; {others}")


def lines_of_config(signature: Signature) -> Iterator[str]:
    """Lines for a new config's dynamic dimensions, with the keys that change them."""

    def remedy(name: str, size: int, most: int | None) -> str:
        return f"`dims` fixes it to {size}; `{name}: {{max: {most or larger_size(size)}}}` there bounds it"

    return _lines(signature, remedy)


def _lines(signature: Signature, remedy: Callable[[str, int, int | None], str]) -> Iterator[str]:
    inputs = [StarterInput(spec.name, spec.shape, spec.dtype) for spec in signature.inputs]
    bounds: Mapping[str, Bounds] = signature.bounds
    for name, size in dynamic_sizes(inputs, bounds).items():
        known = bounds.get(name)
        takes = describe_bounds(known) if known else "any size"
        yield printable(f"  dynamic dimension {name}, {takes}: {remedy(name, size, known and known[1])}")
