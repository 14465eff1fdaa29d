"""Inputs of a model in lines for a terminal, and its dynamic dimensions, each with the key of a config that fixes or bounds it."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tvmake.artifact.extents import describe_bounds
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.other_sizes import other_sizes
from tvmake.artifact.signature import Signature, StateSpec
from tvmake.artifact.states import is_length
from tvmake.config.documents.starter import StarterInput, axes_of, dynamic_sizes, example_bounds, yaml_text
from tvmake.process.output import printable


def input_lines(
    signature: Signature, values: Mapping[str, Any] | None = None, described: Collection[str] = ()
) -> Iterator[str]:
    """A line for each input, and for each dynamic dimension one with its sizes and with keys of a config as remedies.

    Args:
        values: values of inputs that the package does not take, by name.
        described: dynamic dimensions that :func:`shape_lines` describes.
    """
    for spec in signature.inputs:
        shape = f" [{', '.join(map(str, spec.shape))}]" if spec.shape else ""
        yield printable(f"  input {spec.name}: {spec.dtype}{shape}")
    for state in signature.states:
        shape = f" [{', '.join(map(str, state.shape))}]" if state.shape else ""
        if is_length(state):
            rows = describe_bounds(signature.bounds.get(str(state.shape[0]), (0, None)))
            yield printable(f"  {state.shape[0]}, the length of states that each run extends in place: {rows}")
            continue
        yield printable(f"  state {state.name}: {state.dtype}{shape}, kept from run to run{_growth(state, signature)}")
    for name, value in (values or {}).items():
        yield printable(f"  input {name}: always {value}; the package does not take it")
    inputs = [StarterInput(spec.name, spec.shape, spec.dtype) for spec in signature.inputs]
    sizes = dynamic_sizes(inputs, signature.bounds) if not signature.shapes else {}
    for name, size in sizes.items():
        if name in described:
            continue
        bounds = signature.bounds.get(name)
        takes = describe_bounds(bounds) if bounds else "any size"
        remedy = f"`dims: {{{yaml_text(name)}: {size}}}` fixes it"
        if bounds is None or bounds[1] is None:
            remedy += f", `dims: {{{yaml_text(name)}: {example_bounds(name, size, bounds)}}}` bounds it"
        yield printable(f"  dynamic dimension {name} ({axes_of(name, inputs)}), {takes}: {remedy}")


def _growth(state: StateSpec, signature: Signature) -> str:
    """How a state grows, if it does, and the key with which it is not copied."""
    changed = [extent for extent, following in zip(state.shape, state.next.shape, strict=True) if extent != following]
    if not changed:
        return ""
    copied = "; its size changes, so each run copies it"
    (name, *others) = changed
    if others or name not in signature.lengths or signature.bounds.get(name, (0, None))[1] is not None:
        return copied
    return f"{copied}: `dims: {{{yaml_text(name)}: {{max: SIZE}}}}` gives it a buffer of that size, extended in place"


def shape_lines(manifest: Manifest) -> Iterator[str]:
    """Lines for the shapes for which a package has code of its own, and for other sizes."""
    shapes = [", ".join(f"{name}={size}" for name, size in part.sizes.items()) for part in manifest.functions]
    if not shapes:
        return
    named = "; ".join(shape for shape in shapes if shape)
    others = ""
    if "" in shapes:
        others = "; other sizes take the dynamic code"
    elif manifest.why_refused:
        others = f"; other sizes are refused: {manifest.why_refused}"
    yield printable(f"  shapes with their own code: {named}{others}")
    for entry in other_sizes(manifest):
        yield printable(f"  {entry.range}: {entry.how}")


def split_dimensions(manifest: Manifest) -> set[str]:
    """The dimensions that :func:`shape_lines` describes, whose other sizes are padded or split."""
    return {part.rows.dimension for part in manifest.functions if part.rows}
