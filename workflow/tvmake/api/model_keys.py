"""The keys of a model in a config, from arguments in Python."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvmake.errors import InputError

Size = int | tuple[int | None, int | None]
"""Of a dynamic dimension; or its smallest and largest size."""


def model_keys(
    input_shapes: Any,
    dims: Mapping[str, Size] | None,
    shapes: Sequence[Mapping[str, int]],
    values: Mapping[str, Any] | None,
    state: Mapping[str, str] | None,
    *,
    trusted: bool,
) -> dict[str, Any]:
    """The keys of a model, except its source.

    Args:
        input_shapes: shapes of inputs by name, or arrays of these shapes.
        dims: sizes or bounds of dynamic dimensions, by name.
        shapes: sizes of dynamic dimensions for which packages have code of their own.
        values: values of inputs that the package does not take, by name.
        state: inputs that the package keeps from run to run, with the outputs that are their next values.
        trusted: whether loading the source may run code of the source.

    Raises:
        InputError: an argument is not a mapping, or not a list of mappings.
    """
    if isinstance(shapes, str | Mapping) or not isinstance(shapes, Sequence):
        raise InputError("shapes", f"expected a list (got {type(shapes).__name__})", "[{'batch': 1}, {'batch': 8}]")
    for name, argument, example in (
        ("inputs", input_shapes, "{'image': (1, 3, 224, 224)}"),
        ("dims", dims, "{'batch': 1, 'length': (1, 512)}"),
        ("values", values, "{'sr': 16000}"),
        ("state", state, "{'state': 'stateN'}"),
    ):
        if not isinstance(argument, Mapping | None):
            raise InputError(name, f"expected a mapping by name (got {type(argument).__name__})", example)
    inputs: dict[str, dict[str, Any]] = {
        name: {"shape": _extents(shape)} for name, shape in (input_shapes or {}).items()
    }
    for name, value in (values or {}).items():
        inputs.setdefault(name, {})["value"] = _plain(value)
    sizes = {name: _size(size) for name, size in (dims or {}).items()}
    functions = [_sizes(shape) for shape in shapes]
    kept = dict(state or {})
    keys = {"inputs": inputs, "state": kept, "dims": sizes, "shapes": functions, "trusted": trusted}
    return {name: value for name, value in keys.items() if value}


def _extents(shape: Any) -> Any:
    """A shape as a list of plain numbers; other values are unchanged, and the config refuses them."""
    if hasattr(shape, "dtype") and hasattr(shape, "shape"):  # an array or tensor represents its shape
        shape = tuple(shape.shape)
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        return shape
    return [int(extent) if hasattr(extent, "__index__") else extent for extent in shape]


def _size(size: Any) -> Any:
    """A size, or bounds as a config has them; other values are unchanged, and the config refuses them."""
    if isinstance(size, tuple | list) and len(size) == 2:
        return {end: _plain(bound) for end, bound in zip(("min", "max"), size, strict=True) if bound is not None}
    return _plain(size)


def _sizes(shape: Any) -> Any:
    """The sizes of a shape as plain numbers; other values are unchanged, and the config refuses them."""
    return {name: _plain(size) for name, size in shape.items()} if isinstance(shape, Mapping) else shape


def _plain(value: Any) -> Any:
    """Arrays and their numbers as plain numbers and lists; other values are unchanged."""
    return value.tolist() if hasattr(value, "tolist") else value
