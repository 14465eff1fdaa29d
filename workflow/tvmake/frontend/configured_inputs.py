"""Check the `inputs:` of a config against the model's own and apply them to its signature."""

import difflib
from collections.abc import Mapping
from typing import Any

from tvmake.artifact.signature import Bounds, Signature, TensorSpec
from tvmake.errors import InputError
from tvmake.frontend.options import InputSpec


def describe(spec: TensorSpec) -> str:
    """``x: float32 (1, 3, 224, 224)``, as error messages list an input."""
    return f"{spec.name}: {spec.dtype} ({', '.join(str(extent) for extent in spec.shape)})"


def check_inputs(where: str, signature: Signature, entries: Mapping[str, InputSpec]) -> None:
    """Refuse an ``inputs:`` entry that the model contradicts.

    A fixed extent can only be repeated; a dynamic one may be fixed or (re)named.

    Raises:
        InputError: an unknown input, another dtype, another rank, or another size of a fixed dimension. The remedy lists
            the model's inputs.
    """
    inputs = {spec.name: spec for spec in signature.inputs}
    listing = "the model's inputs are " + "; ".join(describe(spec) for spec in signature.inputs)
    for name, entry in entries.items():
        if name not in inputs:
            close = difflib.get_close_matches(name, inputs, n=1)
            problem = f"the model has no input '{name}'" + (f"; did you mean '{close[0]}'?" if close else "")
            raise InputError(where, problem, listing)
        spec = inputs[name]
        if entry.dtype is not None and entry.dtype != spec.dtype:
            raise InputError(where, f"input '{name}' is {spec.dtype}, not {entry.dtype}", listing)
        if entry.shape is None:
            continue
        if len(entry.shape) != len(spec.shape):
            raise InputError(where, f"input '{name}' has {len(spec.shape)} axes, not {len(entry.shape)}", listing)
        for axis, (extent, declared) in enumerate(zip(entry.shape, spec.shape, strict=True)):
            if isinstance(declared, int) and extent != declared:
                problem = f"axis {axis} of input '{name}' is fixed to {declared} in the model, it cannot be {extent}"
                raise InputError(where, problem, f"{listing}; export the model again for another shape")


def with_extents(signature: Signature, entries: Mapping[str, InputSpec]) -> Signature:
    """The signature with the config's shapes, which :func:`check_inputs` accepted."""
    shapes = {name: entry.shape for name, entry in entries.items() if entry.shape is not None}
    inputs = tuple(
        spec.model_copy(update={"shape": tuple(shapes[spec.name])}) if spec.name in shapes else spec
        for spec in signature.inputs
    )
    names = {
        declared: extent
        for before, spec in zip(signature.inputs, inputs, strict=True)
        for declared, extent in zip(before.shape, spec.shape, strict=True)
        if isinstance(declared, str)
    }
    return signature.model_copy(update={"inputs": inputs, "bounds": rename_bounds(signature.bounds, names)})


def rename_bounds(bounds: Mapping[str, Bounds], extents: Mapping[str, Any]) -> dict[str, Bounds]:
    """Bounds by the dimensions' new names.

    Args:
        extents: from a dimension's old name to its new name, or to its size if it is fixed.
    """
    items = ((extents.get(name, name), limits) for name, limits in bounds.items())
    return {name: limits for name, limits in items if isinstance(name, str)}


def with_ranges(signature: Signature, entries: Mapping[str, InputSpec]) -> Signature:
    """The signature with the value ranges of the config."""
    inputs = tuple(
        spec.model_copy(update={"range": entries[spec.name].range})
        if spec.name in entries and entries[spec.name].range is not None
        else spec
        for spec in signature.inputs
    )
    return signature.model_copy(update={"inputs": inputs})
